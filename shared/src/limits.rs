//! Every size, count and time of the protocol, one line of reason each (wire §2, §7, §9 and the settled points).

/// A line without its `\n`, in bytes: the largest frame; one more byte is `line_too_long`.
pub const LINE_BYTES: usize = 8 * 1024 * 1024;
/// Plaintext bytes up to the end of the `hello` line: what a stranger may make us hold.
pub const HELLO_BYTES: usize = 16 * 1024;
/// Nesting of JSON in a frame; the frame's own object is depth 1.
pub const JSON_DEPTH: usize = 64;
/// An entry as logged, in bytes without its `\n`: what a frame adds to carry it is less than 256 bytes, and the frame must fit a line.
pub const ENTRY_BYTES: usize = LINE_BYTES - 256;
/// Nesting of JSON in an entry as logged: the frame that carries it is one level more.
pub const ENTRY_DEPTH: usize = JSON_DEPTH - 1;
/// The largest integer that every client can hold exactly, 2^53 − 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;
/// A Noise message, in bytes: the Noise specification's own bound.
pub const NOISE_MESSAGE_BYTES: usize = 65_535;
/// Plaintext in one Noise message, in bytes: the message less its 16-byte tag.
pub const NOISE_PLAINTEXT_BYTES: usize = NOISE_MESSAGE_BYTES - 16;
/// `bad_json` failures in a row after which a link is closed: nobody sane sends more.
pub const BAD_JSON_IN_A_ROW: u32 = 100;

/// Time from accept until `hello` has come, in milliseconds.
pub const HELLO_MILLISECONDS: u64 = 30_000;
/// Silence after which a link gets a `ping`, in milliseconds.
pub const PING_AFTER_MILLISECONDS: u64 = 15_000;
/// Time that a peer has to answer a `ping` with any byte, in milliseconds.
pub const PONG_WITHIN_MILLISECONDS: u64 = 30_000;
/// Port links that have not said `hello`; one more closes the earliest.
pub const STRANGERS: usize = 8;

/// A device's or session's name, in scalar values.
pub const NAME_SCALARS: usize = 48;
/// The text of a submission, in bytes.
pub const TEXT_BYTES: usize = 256 * 1024;
/// The text of an answer, in bytes.
pub const ANSWER_BYTES: usize = 16 * 1024;
/// A path in a frame, in bytes.
pub const PATH_BYTES: usize = 4096;
/// Prerequisites of a session.
pub const PREREQUISITES: usize = 32;
/// Entries of each list of choices (models, efforts, agents, options, directories).
pub const CHOICES: usize = 256;
/// The word of a model, effort, agent or harness, in bytes.
pub const WORD_BYTES: usize = 256;
/// A budget, in seconds: one week.
pub const BUDGET_SECONDS_MAX: u64 = 604_800;
/// The id of a submission, in characters.
pub const SUBMISSION_ID_CHARACTERS: usize = 64;
/// The id of a message or tool call, in characters.
pub const PART_ID_CHARACTERS: usize = 128;
/// Submissions that wait behind the running one; a further one is dropped as `queue_full`.
pub const QUEUE: usize = 8;
/// What a harness hands over and would break the wire's rules is kept as text up to this size, in bytes.
pub const RAW_BYTES: usize = 256 * 1024;
/// The text of one result entry, in bytes: the rest is counted in `truncated`.
pub const RESULT_BYTES: usize = 256 * 1024;
/// The text of one assistant or thinking entry, in bytes: four times what a person sends, far below a line.
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// The text of one live `delta`, in bytes.
pub const DELTA_BYTES: usize = 16 * 1024;
/// What an approval is about, in bytes: what cannot be shown whole is denied.
pub const CONFIRM_BYTES: usize = 1024 * 1024;
/// Questions and approvals of one session that are open at once; a further one is denied.
pub const INPUTS: usize = 32;
/// Characters of the last answer that a record shows.
pub const LAST_SCALARS: usize = 200;
/// The `detail` of a failure or refusal, in bytes.
pub const DETAIL_BYTES: usize = 1024;

/// Life of a pairing window, in milliseconds.
pub const WINDOW_MILLISECONDS: u64 = 5 * 60 * 1000;
/// Wrong codes after which a pairing window closes.
pub const WRONG_CODES: u32 = 5;
/// `machine` frames of one session in a second.
pub const MACHINE_FRAMES_A_SECOND: u32 = 4;
/// `presence` frames in a second on one link.
pub const PRESENCE_A_SECOND: u32 = 10;
