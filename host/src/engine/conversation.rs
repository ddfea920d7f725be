//! What was said so far, as the model is told it, and the file that keeps it from one run of the session host to the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::entry::ResultStatus;
use shared::ids::PartId;
use shared::kind::Open;

use super::keeper::{Keeper, SaveError, Saved};
use crate::files::{self, FilesError};

/// The name of the file in the session's directory.
const FILE: &str = "conversation.json";
/// The largest conversation that is read, in bytes: more than any model's context, and what a machine can hold.
const CONVERSATION_BYTES: u64 = 256 * 1024 * 1024;
/// The form of the file.
const VERSION: u32 = 1;

/// What was said so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    version: u32,
    id: String,
    messages: Arc<Vec<Message>>,
}

/// One message. A tool call holds its result: there is no call without one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// What a person sent.
    User {
        /// Its id.
        message: PartId,
        /// The text.
        text: String,
    },
    /// What the model answered, with all the calls that it made and what came of them.
    Assistant {
        /// Its id.
        message: PartId,
        /// The text.
        text: String,
        /// What it thought.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
        /// Its tool calls in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<AnsweredCall>,
    },
}

/// A tool call and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnsweredCall {
    /// The id of the call.
    pub call: PartId,
    /// The tool.
    pub name: String,
    /// What it was given.
    pub input: Value,
    /// How it went.
    pub status: Open<ResultStatus>,
    /// What the model is told of it.
    pub result: String,
}

impl Default for Conversation {
    fn default() -> Self {
        Self { version: VERSION, id: uuid::Uuid::new_v4().to_string(), messages: Arc::default() }
    }
}

impl Conversation {
    /// A conversation that was kept elsewhere.
    #[must_use]
    pub fn resumed(id: String, messages: Vec<Message>) -> Self {
        Self { version: VERSION, id, messages: Arc::new(messages) }
    }

    /// Its id, by which it is resumed.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The messages in order; cheap, and unchanged by what is said later.
    #[must_use]
    pub fn messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// How many messages there are, each tool result counted as one.
    #[must_use]
    pub fn count(&self) -> u64 {
        let count = self.messages.iter().map(|message| match message {
            Message::User { .. } => 1,
            Message::Assistant { calls, .. } => calls.len() + 1,
        });
        u64::try_from(count.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// Puts other messages in place of all.
    pub fn replace(&mut self, messages: Vec<Message>) {
        self.messages = Arc::new(messages);
    }

    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        Arc::make_mut(&mut self.messages).push(message);
    }
}

/// Where a conversation is kept.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

/// A conversation that was opened, and what a person should know about it.
#[derive(Debug)]
pub struct Opened {
    /// The conversation.
    pub conversation: Conversation,
    /// Why it is not the one that was asked for.
    pub notice: Option<String>,
}

impl Store {
    /// The store in a session's directory.
    #[must_use]
    pub fn beside(session_directory: &Path) -> Self {
        Self { path: session_directory.join(FILE) }
    }

    /// Opens the conversation with this id, or a new one. What cannot be read or is another one is kept aside under another name.
    ///
    /// # Errors
    /// [`FilesError`] where the file is open to others, or cannot be put aside.
    pub fn open(&self, wanted: Option<&str>) -> Result<Opened, FilesError> {
        let bytes = match files::read_private(&self.path, CONVERSATION_BYTES) {
            Ok(bytes) => bytes,
            Err(FilesError::TooLarge { .. }) => return self.anew(Some("is too large to be read")),
            Err(FilesError::WrongKind { .. }) => return self.anew(Some("is not a file")),
            Err(refused) => return Err(refused),
        };
        let Some(bytes) = bytes else {
            let notice = wanted.map(|_| {
                "The conversation before is gone; the agent starts anew and knows nothing of it.".to_owned()
            });
            return Ok(Opened { conversation: Conversation::default(), notice });
        };
        match (serde_json::from_slice::<Conversation>(&bytes), wanted) {
            (Ok(found), Some(wanted)) if found.version == VERSION && found.id == wanted => {
                Ok(Opened { conversation: found, notice: None })
            }
            (Ok(found), Some(_)) if found.version == VERSION => {
                self.anew(Some("is another one than the session had"))
            }
            (Ok(found), None) if found.version == VERSION => {
                // A host died before it could say which conversation it began; nobody ever heard of it.
                if found.messages.is_empty() {
                    Ok(Opened { conversation: found, notice: None })
                } else {
                    self.anew(None)
                }
            }
            (Ok(_) | Err(_), _) => self.anew(Some("is damaged")),
        }
    }

    fn anew(&self, why: Option<&str>) -> Result<Opened, FilesError> {
        let aside = self.path.with_file_name(format!("conversation.{}.aside", uuid::Uuid::new_v4().simple()));
        std::fs::rename(&self.path, &aside).map_err(files::system("move aside", &self.path))?;
        let notice = why.map(|why| {
            format!(
                "The conversation before {why}; it is kept as {}, and the agent starts anew and knows nothing of it.",
                aside.display()
            )
        });
        Ok(Opened { conversation: Conversation::default(), notice })
    }
}

/// The file is replaced as a whole.
impl Keeper for Store {
    fn save(&self, conversation: &Conversation) -> Result<Saved, SaveError> {
        let text = serde_json::to_vec(conversation)
            .map_err(std::io::Error::other)
            .map_err(files::system("write", &self.path))?;
        files::write_private(&self.path, &text)?;
        let revision = data_encoding::HEXLOWER.encode(&Sha256::digest(&text));
        Ok(Saved { revision, messages: conversation.count(), changed: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::beside(directory.path());
        (directory, store)
    }

    fn spoken() -> Conversation {
        let mut conversation = Conversation::default();
        conversation.push(Message::User { message: PartId::random(), text: "list".into() });
        conversation.push(Message::Assistant {
            message: PartId::random(),
            text: String::new(),
            thinking: "hm".into(),
            calls: vec![AnsweredCall {
                call: PartId::random(),
                name: "bash".into(),
                input: serde_json::json!({"command": "ls"}),
                status: ResultStatus::Ok.into(),
                result: "a".into(),
            }],
        });
        conversation
    }

    #[test]
    fn what_was_saved_is_resumed_by_its_id() {
        let (_directory, store) = store();
        let conversation = spoken();
        let saved = store.save(&conversation).unwrap();
        let kept = data_encoding::HEXLOWER.encode(&Sha256::digest(std::fs::read(&store.path).unwrap()));
        assert_eq!(saved, Saved { revision: kept, messages: 3, changed: true });
        let opened = store.open(Some(conversation.id())).unwrap();
        assert_eq!(opened.conversation, conversation);
        assert_eq!(opened.notice, None);
    }

    #[test]
    fn what_cannot_be_resumed_is_kept_aside_and_said() {
        for damage in [&b"{\"version\":1,"[..], b"", b"[]", b"{\"version\":2,\"id\":\"x\",\"messages\":[]}"] {
            let (directory, store) = store();
            store.save(&spoken()).unwrap();
            files::write_private(&store.path, damage).unwrap();
            let opened = store.open(Some("x")).unwrap();
            assert!(opened.conversation.messages().is_empty());
            assert!(opened.notice.is_some_and(|notice| notice.contains("damaged")));
            let kept: Vec<_> =
                std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            let [kept] = kept.as_slice() else { panic!("one file is left") };
            assert_eq!(std::fs::read(kept).unwrap(), damage);
        }
    }

    #[test]
    fn something_else_in_its_place_is_kept_aside() {
        let (directory, store) = store();
        std::fs::create_dir(&store.path).unwrap();
        let opened = store.open(Some("x")).unwrap();
        assert!(opened.notice.is_some_and(|notice| notice.contains("not a file")));
        store.save(&opened.conversation).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn another_conversation_is_not_taken_for_the_wanted_one() {
        let (_directory, store) = store();
        store.save(&spoken()).unwrap();
        let opened = store.open(Some("another")).unwrap();
        assert!(opened.conversation.messages().is_empty());
        assert!(opened.notice.is_some());
        assert!(store.open(Some("another")).unwrap().notice.is_some_and(|notice| notice.contains("gone")));
    }

    #[test]
    fn a_call_without_its_result_cannot_be_read() {
        let dangling = r#"{"version":1,"id":"x","messages":[{"role":"assistant","message":"m","text":"","calls":[{"call":"c","name":"bash","input":{}}]}]}"#;
        assert!(serde_json::from_str::<Conversation>(dangling).is_err());
    }
}
