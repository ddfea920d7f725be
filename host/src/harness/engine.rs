//! The `aura` harness: the built-in engine as a session host sees any agent.

use std::collections::VecDeque;
use std::sync::Arc;

use shared::entry::{Level, Notice};
use shared::gate::Finding;
use shared::settings::{Choices, Settings};
use shared::status::Exit;
use tokio::sync::mpsc;

use super::{
    Abilities, Agent, AgentCommand, AgentEvent, Asked, COMMANDS, EVENTS, Harness, Later, OpenError, Opening,
    Place, Said, Subject, TurnEnd, Version,
};
use crate::engine::conversation::Store;
use crate::engine::provider::Provider;
use crate::engine::provider::script::{self, Script, ScriptProvider};
use crate::engine::tools::Tools;
use crate::engine::workspace::Workspace;
use crate::engine::{
    Desk, Engine, EngineEvent, Grants, MAX_STEPS, Question, Questions, Rules, TurnOutcome, stop_pair,
};

/// The word by which it is chosen.
pub const NAME: &str = "aura";

/// The built-in agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aura;

impl Harness for Aura {
    fn name(&self) -> &'static str {
        NAME
    }

    fn abilities(&self) -> Abilities {
        Abilities { interrupt: true, resume: true, configure: false }
    }

    fn probe<'a>(&'a self, _place: &'a Place) -> Later<'a, Finding> {
        Box::pin(std::future::ready(Finding::Ok))
    }

    fn version<'a>(&'a self, _place: &'a Place) -> Later<'a, Option<Version>> {
        Box::pin(std::future::ready(Version::of(env!("CARGO_PKG_VERSION"))))
    }

    fn open(&self, opening: Opening) -> Later<'_, Result<Agent, OpenError>> {
        Box::pin(async move {
            let opened = tokio::task::spawn_blocking(move || assemble(opening)).await;
            let (engine, notice) =
                opened.map_err(|_| OpenError::Start { detail: "the engine itself failed".to_owned() })??;
            let (commands, received) = mpsc::channel(COMMANDS);
            let (events, listened) = mpsc::channel(EVENTS);
            tokio::spawn(live(engine, notice, received, events));
            Ok(Agent { commands, events: listened })
        })
    }
}

/// The engine for an opening, and what a person should know about it.
fn assemble(opening: Opening) -> Result<(Engine, Option<String>), OpenError> {
    let start = |detail: String| OpenError::Start { detail };
    let place = opening.place;
    let script = match place.config.aura.script {
        Some(path) => Script::read(&place.working_directory.join(path)),
        None => Script::tour(),
    };
    let script = script.map_err(|error| start(error.to_string()))?;
    let provider: Arc<dyn Provider> = Arc::new(ScriptProvider::new(script));
    let model = opening.model.unwrap_or_else(|| script::NAME.to_owned());
    if !provider.models().contains(&model) {
        return Err(OpenError::UnknownModel { model });
    }
    let workspace = Workspace::open(&place.working_directory)
        .map_err(|error| start(format!("{}: {error}", place.working_directory.display())))?;
    // The home of aude may lie in the working directory, and holds the keys of the machine: `HOME/sessions/ID` is the session's directory.
    let workspace = match place.session_directory.ancestors().nth(2) {
        Some(home) => workspace.without(home),
        None => workspace,
    };
    let store = Store::beside(&place.session_directory);
    let opened = store.open(opening.conversation.as_deref()).map_err(|error| start(error.to_string()))?;
    let engine = Engine {
        provider,
        model,
        tools: Tools::new(workspace, place.run, place.guard_program),
        agent: None,
        permissions: opening.permissions,
        rules: Rules::default(),
        max_steps: MAX_STEPS,
        conversation: opened.conversation,
        keeper: Arc::new(store),
        desk: Desk::default(),
        questions: Questions::Wait,
        grants: Grants::default(),
    };
    Ok((engine, opened.notice))
}

/// Takes commands until nobody can send any.
async fn live(
    mut engine: Engine,
    notice: Option<String>,
    mut commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
) {
    // Nobody hears an event once the session host is gone; then the commands have ended, too.
    let _ = events.send(AgentEvent::Settings(settings(&engine))).await;
    if let Some(text) = notice {
        say(&events, Level::Warning, text).await;
    }
    let mut waiting = VecDeque::new();
    loop {
        let text = match waiting.pop_front() {
            Some(text) => text,
            None => match commands.recv().await {
                Some(AgentCommand::Turn { text, .. }) => text,
                Some(AgentCommand::Interrupt | AgentCommand::Answer { .. } | AgentCommand::Configure(_)) => {
                    continue;
                }
                None => break,
            },
        };
        let end = turn(&mut engine, text, &mut commands, &mut waiting, &events).await;
        let _ = events.send(AgentEvent::TurnEnded(end)).await;
    }
    let _ = events.send(AgentEvent::Exited(Exit::Status(0))).await;
}

/// Runs one turn, with ears for an interrupt. When the commands end, so does the turn, with all that it started.
async fn turn(
    engine: &mut Engine,
    text: String,
    commands: &mut mpsc::Receiver<AgentCommand>,
    waiting: &mut VecDeque<String>,
    events: &mpsc::Sender<AgentEvent>,
) -> TurnEnd {
    let (stopper, stop) = stop_pair();
    let desk = engine.desk.clone();
    let (told, mut heard) = mpsc::channel(EVENTS);
    let pass_on = async {
        while let Some(event) = heard.recv().await {
            if let Some(event) = agent_event(event) {
                let _ = events.send(event).await;
            }
        }
    };
    let run = async {
        // The sender ends with the turn, and with it what is passed on.
        let told = told;
        engine.turn(text, &told, stop).await
    };
    let listen = async {
        loop {
            match commands.recv().await {
                Some(AgentCommand::Interrupt) => stopper.stop(),
                Some(AgentCommand::Answer { input, decision }) => desk.decide(input, decision),
                Some(AgentCommand::Configure(_)) => {}
                // The session host sends one turn at a time; if it ever sends two, none is lost, and a flood finds no ear.
                Some(AgentCommand::Turn { text, .. }) => {
                    waiting.push_back(text);
                    if waiting.len() >= COMMANDS {
                        return std::future::pending::<()>().await;
                    }
                }
                None => {
                    stopper.stop();
                    return std::future::pending::<()>().await;
                }
            }
        }
    };
    let work = async { tokio::join!(run, pass_on).0 };
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = listen => TurnOutcome::Interrupted,
    };
    match outcome {
        TurnOutcome::Completed => TurnEnd::Completed,
        // A person is always waited for here; a turn that was not let go on is one that was interrupted.
        TurnOutcome::Interrupted | TurnOutcome::Blocked(_) => TurnEnd::Interrupted,
        TurnOutcome::Failed(failure) => {
            say(events, Level::Error, failure.to_string()).await;
            TurnEnd::Failed
        }
        TurnOutcome::Rejected(rejection) => {
            say(events, Level::Error, rejection.to_string()).await;
            TurnEnd::Failed
        }
        TurnOutcome::PolicyStop(why) => {
            say(events, Level::Error, why).await;
            TurnEnd::Failed
        }
    }
}

async fn say(events: &mpsc::Sender<AgentEvent>, level: Level, text: String) {
    let notice = Notice { level: level.into(), text };
    let _ = events.send(AgentEvent::Said(Said::Notice(notice))).await;
}

/// What a session host hears of it; the rest is for controllers.
fn agent_event(event: EngineEvent) -> Option<AgentEvent> {
    Some(match event {
        EngineEvent::Delta { message, kind, text } => AgentEvent::Delta { message, kind, text },
        EngineEvent::Thinking(thinking) => AgentEvent::Said(Said::Thinking(thinking)),
        EngineEvent::Assistant(assistant) | EngineEvent::Abandoned(assistant) => {
            AgentEvent::Said(Said::Assistant(assistant))
        }
        EngineEvent::ToolStarted(tool) => AgentEvent::Said(Said::Tool(tool)),
        EngineEvent::ToolFinished(result) => AgentEvent::Said(Said::Result(result.result)),
        EngineEvent::Asked(question) => AgentEvent::Asked(Box::new(asked(*question))),
        EngineEvent::Plan(plan) => AgentEvent::Said(Said::Plan(plan)),
        EngineEvent::Usage(usage) => AgentEvent::Said(Said::Usage(usage)),
        EngineEvent::Notice(notice) => AgentEvent::Said(Said::Notice(notice)),
        EngineEvent::Began { .. } | EngineEvent::Answered(_) | EngineEvent::Saved(_) => return None,
    })
}

fn asked(question: Question) -> Asked {
    let subject = question.subject.map(|subject| Subject {
        tool: subject.tool,
        class: subject.class,
        command: subject.command,
        paths: subject.paths,
    });
    Asked { input: question.input, matter: question.matter, subject, grant: question.grant }
}

fn settings(engine: &Engine) -> Settings {
    Settings {
        conversation: Some(engine.conversation.id().to_owned()),
        model: Some(engine.model.clone()),
        alias: None,
        effort: None,
        agent: None,
        context_tokens: None,
        branch: None,
        choices: Choices { models: engine.provider.models(), ..Choices::default() },
    }
}

#[cfg(test)]
mod tests;
