//! Links of the command line to this machine's listener, requests over them, and the session that a word means.

use std::time::Duration;

use shared::channel::StaticKey;
use shared::failure::Fault;
use shared::frame::{
    Frame, Hello, HelloHome, HelloMachine, HelloSession, ListenerBody, Machine, OpenerBody, Welcome,
    WelcomeSession,
};
use shared::ids::{FrameId, LogId, SessionId};
use shared::kind::Open;
use shared::record::Record;
use shared::request::{Request, Response};
use tokio::time::sleep;

use super::error::CliError;
use crate::client::{Address, Link};
use crate::clock;
use crate::home::Home;
use crate::identity;

/// What other devices see as the name of a terminal.
const NAME: &str = "terminal";

/// This machine, as the command line reaches it.
#[derive(Debug)]
pub(super) struct Here {
    pub(super) home: Home,
    key: StaticKey,
}

impl Here {
    /// Opens the home folder and reads the machine's key.
    pub(super) fn open() -> Result<Self, CliError> {
        let home = Home::from_environment()?;
        let key = identity::machine_key(&home).map_err(|error| CliError::failed(error.to_string()))?;
        Ok(Self { home, key })
    }

    async fn dial(&self, hello: Hello) -> Result<(Link, Welcome), CliError> {
        let address = Address::Socket(self.home.listener_socket());
        Ok(Link::open(&address, &self.key, self.key.fingerprint(), hello).await?)
    }

    /// Opens a `machine` link; gives the records that it begins with.
    pub(super) async fn machine(&self) -> Result<(Link, Vec<Record>), CliError> {
        let hello = Hello::Machine(HelloMachine { name: NAME.to_owned(), code: None });
        let (mut link, welcome) = self.dial(hello).await?;
        let Welcome::Machine { backlog_count } = welcome else { return Err(unexpected()) };
        let mut records = Vec::new();
        while (records.len() as u64) < backlog_count {
            match link.frames.recv().await {
                Some(Frame { body: ListenerBody::Machine(machine), .. }) => match *machine {
                    Machine::Record(record) => records.push(*record),
                    Machine::Removed(_) => {}
                },
                Some(_) => {}
                None => return Err(link.closed().await.into()),
            }
        }
        Ok((link, records))
    }

    /// Opens a `session` link from that sequence of that log.
    pub(super) async fn session(
        &self,
        session: SessionId,
        since: u64,
        log: Option<LogId>,
    ) -> Result<(Link, WelcomeSession), CliError> {
        let hello = Hello::Session(HelloSession { name: NAME.to_owned(), session, since, log, code: None });
        let (link, welcome) = self.dial(hello).await?;
        match welcome {
            Welcome::Session(welcome) => Ok((link, *welcome)),
            Welcome::Machine { .. } | Welcome::Host { .. } | Welcome::Home { .. } => Err(unexpected()),
        }
    }

    /// Opens a `home` link.
    pub(super) async fn home_link(&self) -> Result<Link, CliError> {
        let (link, _) = self.dial(Hello::Home(HelloHome::default())).await?;
        Ok(link)
    }

    /// The session that a word means: its id, its name, or the beginning of its id where that is unique.
    pub(super) async fn find(&self, word: &str) -> Result<(Link, Record), CliError> {
        let (link, records) = self.machine().await?;
        let record = choose(records, word)?;
        Ok((link, record))
    }

    /// Starts the listener in the background where none runs. Says whether it started one.
    pub(super) async fn ensure_listener(&self) -> Result<bool, CliError> {
        match self.machine().await {
            Ok(_) => Ok(false),
            Err(error) if error.code == super::Code::NoListener => {
                super::listen::start_in_background(&self.home, || async { self.machine().await.is_ok() })
                    .await?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

fn unexpected() -> CliError {
    CliError::failed("the listener answered for another kind of link")
}

fn choose(records: Vec<Record>, word: &str) -> Result<Record, CliError> {
    let by_name = records.iter().position(|record| record.name == word || record.id.to_string() == word);
    if let Some(record) = by_name.and_then(|index| records.get(index)) {
        return Ok(record.clone());
    }
    let mut by_prefix =
        records.iter().filter(|record| word.len() >= 4 && record.id.to_string().starts_with(word));
    match (by_prefix.next(), by_prefix.next()) {
        (Some(record), None) => Ok(record.clone()),
        (Some(_), Some(_)) => {
            Err(CliError::not_found(format!("more than one session's id begins with {word}")))
        }
        (None, _) => Err(CliError::not_found(format!("this machine has no session named {word}"))
            .hint("`aude sessions` lists them")),
    }
}

/// Sends a frame and waits for the answer to it; frames that are no answer to it go to `aside`.
pub(super) async fn ask(
    link: &mut Link,
    frame: Frame<OpenerBody>,
    mut aside: impl FnMut(ListenerBody),
) -> Result<Open<Response>, CliError> {
    let id = frame.id.clone();
    if link.sender.send(frame).await.is_err() {
        return Err(CliError::failed("the listener closed the link"));
    }
    answer(link, &id, &mut aside).await
}

/// Waits for the next answer to a frame.
pub(super) async fn answer(
    link: &mut Link,
    id: &FrameId,
    aside: &mut impl FnMut(ListenerBody),
) -> Result<Open<Response>, CliError> {
    while let Some(frame) = link.frames.recv().await {
        let is_answer = frame.reply_to.as_ref() == Some(id);
        if let ListenerBody::Response(response) = frame.body {
            if is_answer {
                return Ok(*response);
            }
            continue;
        }
        if let ListenerBody::Failure(failure) = &frame.body
            && (is_answer || failure.is_fatal)
        {
            return Err(failure.clone().into());
        }
        aside(frame.body);
    }
    Err(CliError::failed("the listener closed the link before it answered")
        .hint("try again; nothing runs twice"))
}

/// How often something that may come twice is asked again by itself, when the session's process went away before it answered.
const TRIES: u32 = 5;
/// The first pause before that; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Says whether to ask again with the same id: it pauses, and takes one try off those that are left.
pub(super) async fn ask_again(tries: &mut Tries, response: &Open<Response>) -> bool {
    let Open::Known(Response::Failed(failed)) = response else { return false };
    if !failed.word.is(&Fault::HostGone) || tries.made >= TRIES {
        return false;
    }
    sleep(FIRST_PAUSE * (1 << tries.made)).await;
    tries.made += 1;
    true
}

/// The tries that were made for one thing.
#[derive(Debug, Default)]
pub(super) struct Tries {
    made: u32,
}

/// Asks the machine for something that may come twice, again where the session's process went away before it answered.
pub(super) async fn request_again(link: &mut Link, wish: Request) -> Result<Response, CliError> {
    let mut tries = Tries::default();
    loop {
        let response = ask(link, Frame::new(clock::now(), OpenerBody::Request(wish.clone())), |_| {}).await?;
        if !ask_again(&mut tries, &response).await {
            return judged(response);
        }
    }
}

/// Asks the machine for something and gives the response.
pub(super) async fn request(link: &mut Link, request: Request) -> Result<Response, CliError> {
    let frame = Frame::new(clock::now(), OpenerBody::Request(request));
    judged(ask(link, frame, |_| {}).await?)
}

fn judged(response: Open<Response>) -> Result<Response, CliError> {
    match response {
        Open::Known(Response::Refused(_) | Response::Failed(_)) | Open::Unknown(_) => {
            Err(CliError::from_response(&response))
        }
        Open::Known(response) => Ok(response),
    }
}

/// How long a listener may take until it answers after it was started.
pub(super) const LISTENER_WITHIN: Duration = Duration::from_secs(15);
