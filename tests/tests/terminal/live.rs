//! `aude attach` in a real terminal: what is shown, what the keys do, and that no agent steers the terminal.

use tests::terminal::{CTRL_C, CTRL_D, Terminal};
use tests::wait;

use super::running;

/// What a hostile agent would print: a title, a cleared screen, colours by one byte, an unended string, a reordering.
const EVIL: &str = "echo a\u{1b}]0;owned\u{7}b\u{1b}[2Jc\u{9b}31md\u{202e}e\u{1b}Pdevice";

/// What stands on the screen once the colours are taken out; anything else that begins with ESC fails the test.
fn plain(screen: &str) -> String {
    let mut pieces = screen.split('\u{1b}');
    let mut plain = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (style, text) =
            piece.strip_prefix('[').and_then(|rest| rest.split_once('m')).unwrap_or(("no colour", ""));
        assert!(style.chars().all(|c| c.is_ascii_digit() || c == ';'), "{piece:?} on {screen:?}");
        plain.push_str(text);
    }
    plain
}

#[tokio::test]
async fn a_session_is_watched_and_steered_and_no_agent_steers_the_terminal() {
    let home = running().await;
    let _ = home.ok(["start", "one", "--harness", "aura"]);
    let _ = home.ok(["send", "one", "--wait", EVIL]);
    let _ = home.run(["send", "one", "--wait", "read no-file\u{1b}]0;owned\u{7}x"]);
    let mut command = home.command(["attach", "one"]);
    command.env_remove("NO_COLOR");
    let mut terminal = Terminal::open(&command);
    terminal.shows("Ctrl-D leaves").await;
    terminal.shows("abcde").await;
    terminal.press("echo typed here\r");
    terminal.shows_times("typed here", 3).await;
    // Live: hostile text that another one brings about.
    let _ = home.ok(["send", "one", "--wait", &EVIL.replace("echo a", "echo live-a")]);
    terminal.shows_times("live-abcde", 2).await;
    let screen = terminal.screen();
    assert!(screen.contains("\u{1b}[1m"), "it is coloured: {screen:?}");
    let seen = plain(&screen);
    for trace in ["owned", "\u{7}", "\u{9b}", "\u{202e}", "device"] {
        assert!(!seen.contains(trace), "{trace:?} in {seen:?}");
    }
    terminal.press(CTRL_D);
    assert!(terminal.ended().await.success());
    assert!(!home.record("one")["host"].is_null(), "the session goes on");
}

#[tokio::test]
async fn ctrl_c_interrupts_a_turn_and_then_leaves() {
    let home = running().await;
    let _ = home.ok(["start", "one", "--harness", "aura", "echo hello"]);
    let mut terminal = Terminal::open(&home.command(["attach", "one"]));
    terminal.shows("\nhello\r\n").await;
    terminal.press("hold never\r");
    terminal.shows("holding never").await;
    terminal.press(CTRL_C);
    terminal.shows("(interrupting; Ctrl-C again leaves, and the session goes on)").await;
    terminal.shows("  interrupted").await;
    wait::until("the end of the turn", || async {
        (home.record("one")["work"]["state"] == "interrupted").then_some(())
    })
    .await;
    terminal.press("echo still-here\r");
    terminal.shows_times("still-here", 3).await;
    wait::until("the session waits", || async {
        (home.record("one")["work"]["state"] == "answered").then_some(())
    })
    .await;
    terminal.shows("\nstill-here\r\n").await;
    drop(terminal);
    let mut terminal = Terminal::open(&home.command(["attach", "one"]));
    terminal.shows("\nstill-here\r\n").await;
    terminal.press(CTRL_C);
    assert!(terminal.ended().await.success());
    assert!(!terminal.screen().contains("(interrupting"), "there is no turn to interrupt");
    assert!(!home.record("one")["host"].is_null(), "the session goes on");
}

#[tokio::test]
async fn without_a_colour_or_a_terminal_there_is_no_escape() {
    let home = running().await;
    let _ = home.ok(["start", "one", "--harness", "aura"]);
    let text = home.ok(["send", "one", "--wait", EVIL]);
    assert!(text.contains("abcde") && !text.contains('\u{1b}'), "{text:?}");
    let mut terminal = Terminal::open(&home.command(["attach", "one", "--no-follow"]));
    assert!(terminal.ended().await.success());
    terminal.shows("abcde").await;
    assert!(!terminal.screen().contains('\u{1b}'), "{:?}", terminal.screen());
}
