//! One session: a pure machine that decides, and the process around it that logs, answers and drives the agent.

mod bounds;
mod machine;
mod restart;
