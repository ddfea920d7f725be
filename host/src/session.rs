//! One session: a pure machine that decides, and the process around it that logs, answers and drives the agent.

mod bounds;
mod death;
mod hands;
pub mod host;
mod link;
mod live;
mod machine;
mod policy;
mod restart;

pub use machine::Purpose;
