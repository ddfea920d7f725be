//! The sentences in English, which every other language stands in for.

use shared::failure::{Fault, Refusal};
use shared::gate::Finding;
use shared::kind::Open;
use shared::record::WorkState;
use shared::status::{DropReason, Ended, Exit, Fate, RanReason};

/// Sentences without parts.
macro_rules! say {
    ($($name:ident: $words:literal;)*) => { $(fn $name(&self) -> &'static str { $words })* };
}

/// What the page says.
pub(crate) trait Words {
    say! {
        // The page.
        skip_to_content: "Skip to content";
        sessions: "Sessions";
        new_session: "New session";
        back: "Back to the sessions";
        opening: "Opening…";
        copy: "Copy";
        copied: "Copied";
        copy_failed: "The browser did not let this page copy. Mark the text and copy it yourself.";
        cancel: "Cancel";
        try_again: "Try again";
        dismiss: "Dismiss";

        crashed: "Something in this page broke, and it cannot go on. Load it again; nothing that was sent is lost.";

        // Where the page cannot work.
        unusable_title: "This page needs a secure address";
        insecure: "The browser gives this page no cryptography, because it was opened over plain HTTP from another machine. On the machine itself open http://127.0.0.1 with the port that “aude up” names; from elsewhere use the https:// address of its tunnel.";
        no_cryptography: "This browser gives this page no cryptography or randomness, so it cannot prove who it is. Open the page in a current browser, or allow site data for it.";
        key_lost_title: "This browser’s key cannot be read";
        key_lost: "What this browser kept to prove who it is was damaged. Make a new key, then pair this device again.";
        key_lost_button: "Make a new key";
        not_lasting: "This browser keeps nothing for this page (a private window, or no space). It works for this visit: after it, pair again, and messages that were not sent are gone.";

        // Pairing.
        pair_title: "Pair this device";
        pair_lead: "Connect this browser to the machine where your agents run. Only you and that machine can read what goes between them.";
        pair_step_run: "On the machine, run";
        pair_step_open: "Open the link it shows, or scan its code, or paste the link here.";
        pair_field: "Pairing link or code";
        pair_placeholder: "Paste the link here";
        pair_name: "Name of this device";
        pair_name_hint: "The machine lists the device under this name.";
        pair_button: "Pair";
        pairing_now: "Pairing…";
        pair_filled: "The link from the address bar is filled in. It works once, for five minutes.";
        paired: "This device is paired.";
        keep_pairing: "Keep the present pairing";
        pair_unreadable: "This is not a pairing link. Copy it whole, with everything after the #.";
        pair_rejected: "Pairing code rejected: it is wrong, was used already, or is older than five minutes. Run “aude pair” on the machine for a new one.";
        pair_other_machine: "This is not the machine that made the link. Open the link at the address it names. If you did, somebody may be in between: do not go on.";
        pair_not_listed: "This machine does not list this device (any more). Pair it again to go on.";
        pair_unreachable: "The machine could not be reached. Look whether “aude up” runs there, then try again.";

        // The connection.
        connecting: "Connecting…";
        connected: "Connected";
        offline: "Offline";
        reconnect_now: "Now";
        other_machine: "Another machine answers here";
        other_machine_help: "The machine at this address has another key than the one this device was paired with. Nothing was sent to it. If you set the machine up anew, pair again.";

        pair_again: "Pair again";

        waiting_for_machine: "Waiting for the machine…";

        // The list.
        no_sessions: "No session yet";
        no_sessions_hint: "Start one here, or with “aude start” on the machine.";
        pick_session: "Choose a session, or start a new one.";
        live: "live";
        unread: "New since you last looked";
        no_answer_yet: "No answer yet";

        // The start form.
        start_title: "New session";
        start_name: "Name";
        start_name_placeholder: "fix-login";
        start_harness: "Agent";
        start_harness_hint: "claude is Claude Code; aura is built in.";
        start_directory: "Folder";
        start_directory_hint: "An absolute path on the machine.";
        start_text: "First message";
        start_text_placeholder: "What should be done?";
        start_button: "Start";
        starting: "Starting…";
        link_lost: "The connection was lost before the answer came. Try again: nothing is done twice.";

        // A session.
        stop: "Stop";
        remove: "Remove";
        stop_title: "Stop this session?";
        stop_text: "The agent and everything it started end. What it wrote stays, and a new message goes on with its conversation.";
        remove_title: "Remove this session?";
        remove_text: "Its transcript is deleted from the machine and its name cannot be used again. Files that the agent changed stay.";
        gone_title: "This session is not there";
        gone_not_found: "The machine holds no session with this address.";
        gone_retired: "This session was removed.";
        restarted: "The log of this session was replaced on the machine, so it was read again from the start.";
        transcript: "Transcript";
        jump_to_latest: "Jump to latest";
        empty_transcript: "Nothing here yet. Write the first message below.";
        show_all: "Show all";

        // Items.
        you: "You";
        picture: "Image, not loaded";
        assistant: "Agent";
        thinking: "Thinking";
        thinking_live: "Thinking…";
        plan: "Plan";
        step_pending: "to do";
        step_active: "in progress";
        step_done: "done";
        tool_running: "running";
        tool_ok: "done";
        tool_error: "failed";
        tool_denied: "denied";
        tool_interrupted: "interrupted";
        tool_input: "Input";
        tool_output: "Output";
        no_output: "No output";
        added: "added";
        removed: "removed";
        notice_info: "Note";
        notice_warning: "Warning";
        notice_error: "Error";
        question: "The agent asks";
        approval: "The agent wants to";
        question_open: "Waiting for an answer, below.";
        question_unreadable: "What the agent asks cannot be read by this version, so it cannot be answered here. Interrupt the turn to cancel it.";
        question_cancelled: "Cancelled: the turn ended before an answer.";
        open_questions: "Needs an answer";
        options: "Options";
        allow: "Allow";
        allow_session: "Allow for this session";
        deny: "Deny";
        deny_reason: "Deny with a reason (optional)";
        answer: "Answer";
        answer_words: "Your answer";
        answer_own_words: "Or answer in your own words";
        answering: "Sending the answer…";
        answer_stale: "This was decided already, by another device or because the turn ended. Your answer did not count.";
        answer_lost: "The connection was lost before the answer was confirmed. If this is still open once it is back, answer again.";
        model: "Model";
        effort: "Effort";
        agent_mode: "Mode";
        choosing: "Changing…";
        choice_unheard: "The agent has not said that it took the choice. What is shown is what it said last.";
        choice_lost: "the connection was lost before the answer came";
        merged: "The branch of this session was merged.";

        // The composer.
        composer: "Message";
        composer_placeholder: "Message the agent…";
        send: "Send";
        interrupt: "Interrupt";
        interrupt_hint: "Esc";
        too_long: "This message is longer than 256 KiB. Shorten it, or put the text into a file.";
        pending: "Not sent yet";
        pending_connected: "Sending…";
        taken: "Sent";
        retry: "Try again";
        edit: "Edit";
        discard: "Discard";
    }

    fn pair_refused(&self, detail: &str) -> String {
        format!("The machine refused: {detail}.")
    }

    fn reconnecting(&self, seconds: u64) -> String {
        format!("Reconnecting in {seconds} s")
    }

    fn connection_refused(&self, detail: &str) -> String {
        format!("The machine refused this connection: {detail}.")
    }

    fn earlier(&self, count: usize) -> String {
        format!("Show earlier ({count})")
    }

    fn loading(&self, done: u64, count: u64) -> String {
        if count == 0 { "Loading…".to_owned() } else { format!("Loading {done} of {count}…") }
    }

    fn new_items(&self, count: usize) -> String {
        match count {
            0 => self.jump_to_latest().to_owned(),
            1 => "1 new".to_owned(),
            _ => format!("{count} new"),
        }
    }

    fn answer_came(&self, text: &str) -> String {
        let start: String = text.chars().take(300).collect();
        format!("Answer: {start}")
    }

    fn session_title(&self, name: &str) -> String {
        format!("{name} – aude")
    }

    /// The title of the page while a session needs an answer: this one, or so many others.
    fn waiting_title(&self, others: usize, title: &str) -> String {
        if others == 0 { format!("Needs an answer: {title}") } else { format!("({others}) {title}") }
    }

    fn asks(&self, title: &str) -> String {
        format!("Needs an answer: {title}")
    }

    fn open_count(&self, count: usize) -> String {
        format!("{count} need an answer")
    }

    fn allow_session_covers(&self, what: &str) -> String {
        format!("“{}” covers: {what}, until the process of the session ends.", self.allow_session())
    }

    /// What was decided about an approval.
    fn verdict(&self, word: &str) -> String {
        match word {
            "allow" => "allowed",
            "allow_session" => "allowed for this session",
            "deny" => "denied",
            other => other,
        }
        .to_owned()
    }

    /// Why a choice of settings did not count.
    fn not_chosen(&self, why: &str) -> String {
        format!("Not changed: {why}")
    }

    fn question_resolved(&self, name: &str, said: &str) -> String {
        format!("{name}: {said}")
    }

    fn answered_elsewhere(&self, name: &str) -> String {
        format!("{name} answered it.")
    }

    fn others(&self, names: &[String]) -> String {
        format!("Also here: {}", names.join(", "))
    }

    fn updated(&self, seconds: i64) -> String {
        match seconds {
            ..10 => "just now".to_owned(),
            10..60 => format!("{seconds} s ago"),
            60..3600 => format!("{} min ago", seconds / 60),
            3600..86_400 => format!("{} h ago", seconds / 3600),
            _ => format!("{} d ago", seconds / 86_400),
        }
    }

    /// The state of the work, in honest words.
    fn work(&self, state: &Open<WorkState>) -> String {
        match state {
            Open::Known(WorkState::New) => "new",
            Open::Known(WorkState::Held) => "waits for other sessions",
            Open::Known(WorkState::Working) => "working",
            Open::Known(WorkState::Waiting) => "needs an answer",
            Open::Known(WorkState::Answered) => "answered",
            Open::Known(WorkState::Interrupted) => "interrupted",
            Open::Known(WorkState::Failed) => "failed",
            Open::Known(WorkState::Stopped) => "stopped",
            Open::Known(WorkState::Merged) => "merged",
            Open::Unknown(kind) => return kind.word.clone(),
        }
        .to_owned()
    }

    fn queued(&self, count: usize) -> String {
        format!("{count} queued")
    }

    fn truncated(&self, bytes: u64) -> String {
        format!("{} left out", self.bytes(bytes))
    }

    fn bytes(&self, bytes: u64) -> String {
        match bytes {
            0..1024 => format!("{bytes} bytes"),
            1024..1_048_576 => format!("{} KiB", bytes / 1024),
            _ => format!("{} MiB", bytes / 1_048_576),
        }
    }

    fn exit(&self, exit: Exit) -> String {
        match exit {
            Exit::Status(status) => format!("exit {status}"),
            Exit::Signal(signal) => format!("signal {signal}"),
        }
    }

    fn usage(&self, input: u64, output: u64, cached: u64) -> String {
        let cached = if cached > 0 { format!(" · {} cached", tokens(cached)) } else { String::new() };
        format!("{} in · {} out{cached}", tokens(input), tokens(output))
    }

    fn cost(&self, dollars: f64) -> String {
        if dollars < 0.01 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
    }

    fn context(&self, count: u64) -> String {
        format!("context {}", tokens(count))
    }

    /// What became of a submission that was not answered.
    fn settled(&self, fate: &Open<Fate>) -> String {
        let sentence = match fate {
            Open::Known(Fate::Answered) => "Answered.",
            Open::Known(Fate::Dropped(Some(Open::Known(reason)))) => match reason {
                DropReason::QueueFull => {
                    "This message was dropped: eight others were waiting already. Send it again later."
                }
                DropReason::Held => "This message was dropped: the session still waits for other sessions.",
                DropReason::Stopped => {
                    "This message was dropped: the session was stopped first. Send it again to go on."
                }
                DropReason::Cancelled => "This message was taken back before its turn began.",
                DropReason::Revoked => "This message was dropped: its device was revoked.",
            },
            Open::Known(Fate::Dropped(_)) => "This message was dropped before its turn began.",
            Open::Known(Fate::Ran(Some(Open::Known(reason)))) => match reason {
                RanReason::Interrupted => "Interrupted.",
                RanReason::Budget => "The turn was ended: its time was used up.",
                RanReason::Failed => {
                    "The turn failed without an answer. Look at what stands above, then send again."
                }
                RanReason::Lost => {
                    "The turn was lost: its process died. It may have done part of its work; nothing is run again by itself."
                }
            },
            Open::Known(Fate::Ran(_)) => "The turn ended without an answer.",
            Open::Unknown(kind) => return format!("This message ended: {}.", kind.word),
        };
        sentence.to_owned()
    }

    /// Why the host of a session ended.
    fn ended(&self, ended: &Open<Ended>) -> String {
        match ended {
            Open::Known(Ended::Stopped) => {
                "The session was stopped. A new message goes on with it.".to_owned()
            }
            Open::Known(Ended::Refused) => {
                "The agent could not be started; what was found stands above. Mend it, then send a message."
                    .to_owned()
            }
            Open::Known(Ended::InstructionsFile) => {
                "The agent was not started: its instructions file cannot be used.".to_owned()
            }
            Open::Known(Ended::UnknownModel) => {
                "The agent was not started: it does not know the model that was asked for.".to_owned()
            }
            Open::Known(Ended::Died(None)) => {
                "The process of this session died. A new message starts it again.".to_owned()
            }
            Open::Known(Ended::Died(Some(exit))) => {
                format!(
                    "The process of this session died ({}). A new message starts it again.",
                    self.exit(*exit)
                )
            }
            Open::Unknown(kind) => format!("The session ended: {}.", kind.word),
        }
    }

    /// What a probe of a harness found, and what to do.
    fn gate(&self, harness: &str, finding: &Open<Finding>) -> String {
        match finding {
            Open::Known(Finding::Ok) => format!("{harness} is ready."),
            Open::Known(Finding::NotLoggedIn) => {
                format!("{harness} is not logged in. Log in with it on the machine, then send a message.")
            }
            Open::Known(Finding::OtherProvider) => format!(
                "{harness} is logged in with another provider than its own. Allow that in aude’s configuration on the machine (gate.other_provider = \"allow\"), or log in anew."
            ),
            Open::Known(Finding::TimedOut) => format!(
                "{harness} did not say in time whether it is logged in. Run it once on the machine, then send a message."
            ),
            Open::Known(Finding::NotFound) => {
                format!("{harness} is not installed on the machine. “aude doctor” says how to get it.")
            }
            Open::Known(Finding::Silent { exit }) => format!(
                "{harness} ended ({}) without saying whether it is logged in. Run it once on the machine.",
                self.exit(*exit)
            ),
            Open::Known(Finding::Unreadable) => format!(
                "What {harness} says about its login cannot be read: it may be too new or too old. “aude doctor” says more."
            ),
            Open::Known(Finding::Spawn { detail }) => {
                format!("{harness} could not be started on the machine: {detail}.")
            }
            Open::Known(Finding::Unreported) => {
                format!("{harness} has no way to say whether it is logged in.")
            }
            Open::Unknown(kind) => format!("{harness}: {}.", kind.word),
        }
    }

    /// Why something was refused, and what to do.
    fn refused(&self, refusal: Option<Refusal>, detail: Option<&str>) -> String {
        let sentence = match refusal {
            Some(Refusal::IdConflict) => {
                "The machine has another message under the same name. Edit this one and send it anew."
            }
            Some(Refusal::NotPending) => "This was decided already.",
            Some(Refusal::Empty) => "There is no text.",
            Some(Refusal::NotFound) => "The machine does not hold this session any more.",
            Some(Refusal::Retired) => {
                "This name was removed before and cannot be used again. Choose another one."
            }
            Some(Refusal::Running) => "The session still runs. Stop it first.",
            Some(Refusal::NameTaken) => "A session of this name runs already. Choose another name.",
            Some(Refusal::BadName) => "This name cannot be used. Choose another one.",
            Some(Refusal::BadDirectory) => {
                "This folder cannot be used: it must be there, and lie where the machine allows sessions."
            }
            Some(Refusal::UnknownHarness) => "The machine has no agent of that name.",
            Some(Refusal::UnknownModel) => "The agent does not know that model.",
            Some(Refusal::NotOffered) => "The agent does not offer that.",
            Some(Refusal::Replaced) => "A newer pairing took its place.",
            Some(Refusal::Expired) => "The time for it is over.",
            Some(Refusal::TooManyTries) => "Too many wrong tries.",
            Some(Refusal::UnknownDevice) => "The machine does not list that device.",
            Some(Refusal::TooLarge) => "It is too long.",
            Some(Refusal::Conflict) => "The branch cannot be merged as things are.",
            None => "The machine refused it.",
        };
        with_detail(sentence, detail)
    }

    /// Why something could not be done, and what to do.
    fn failed(&self, fault: Option<Fault>, detail: Option<&str>) -> String {
        let sentence = match fault {
            Some(Fault::Storage) => "The machine could not write it down: its disk may be full. Try again.",
            Some(Fault::Spawn) => "The machine could not start the process of the session. Try again.",
            Some(Fault::HostGone) => {
                "The process of the session went away before it answered. Try again: nothing runs twice."
            }
            Some(Fault::Tunnel) => "The tunnel could not be started.",
            None => "The machine could not do it. Try again.",
        };
        with_detail(sentence, detail)
    }
}

fn with_detail(sentence: &str, detail: Option<&str>) -> String {
    detail.map_or_else(|| sentence.to_owned(), |detail| format!("{sentence} ({detail})"))
}

/// A count of tokens as people say it: `950`, `12.3k`, `1.2M`.
fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}.{}k", count / 1000, count % 1000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}
