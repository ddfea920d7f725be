//! The machine around the command line: ports, locks, permissions, the first minute, and files for shells and manuals.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use tests::home::{TestHome, is_alive};
use tests::story::machine;
use tests::terminal::{CTRL_C, Terminal};
use tests::wait;

use super::{printed, running, said};

fn listener(home: &TestHome) -> nix::unistd::Pid {
    let running = host::listener::running(&home.home()).unwrap().expect("a listener runs");
    nix::unistd::Pid::from_raw(i32::try_from(running.pid).unwrap())
}

#[tokio::test]
async fn an_occupied_port_and_a_second_listener_are_told_with_who_holds_them() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut home = machine();
    let config = home.root().join("config.toml");
    let text = fs::read_to_string(&config).unwrap().replace("port = 0", &format!("port = {port}"));
    fs::write(&config, text).unwrap();
    let me = format!("process {}", std::process::id());
    for arguments in [&["listen"][..], &["up", "--harness", "aura"], &["start", "x", "--harness", "aura"]] {
        let output = home.run(arguments);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains(&format!("port {port} of 127.0.0.1 is taken by {me}")),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("`port` in config.toml"), "{said}");
    }
    drop(taken);
    home.listen().await;
    let output = home.run(["listen"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains(&format!("a listener runs already: process {}", home.listener_pid())),
        "{}",
        said(&output)
    );
}

#[tokio::test]
async fn files_that_others_can_read_are_refused_until_they_are_mended() {
    let mut home = machine();
    home.listen().await;
    home.kill_listener();
    let root = home.root();
    let key = home.home().machine_key();
    let config = root.join("config.toml");
    for (path, mode) in [(&root, 0o755), (&key, 0o640), (&config, 0o604)] {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let output = home.run(["listen"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {said}", path.display());
        assert!(said.contains(&path.display().to_string()) && said.contains("by others"), "{said}");
        let mend = said.split('`').nth(1).expect("a command");
        assert!(Command::new("sh").args(["-c", mend]).status().unwrap().success(), "{mend}");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode(), before.mode(), "{mend}");
    }
    home.listen().await;
}

#[tokio::test]
async fn completions_and_manual_pages_come_out() {
    let home = machine();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.ok(["completions", shell]);
        assert!(script.contains("attach") && script.contains("no-follow"), "{shell}: {script}");
    }
    // What completes must at least be read by its shell.
    let script = home.work().join("aude.bash");
    fs::write(&script, home.ok(["completions", "bash"])).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
    let _ = home.ok(["man", "pages/of aude"]);
    for page in ["aude.1", "aude-attach.1", "aude-send.1"] {
        let text = fs::read_to_string(home.work().join("pages/of aude").join(page)).unwrap();
        assert!(text.contains(".TH "), "{page}: {text}");
    }
    let page = fs::read_to_string(home.work().join("pages/of aude/aude.1")).unwrap();
    assert!(page.contains("Exit codes: 0 done"), "{page}");
}

#[tokio::test]
async fn up_shows_a_link_and_says_farewell_and_down_ends_what_it_started() {
    let home = machine();
    let mut terminal = Terminal::open(&home.command(["up", "--harness", "aura"]));
    terminal.shows("The listener of this machine runs now.").await;
    terminal.shows("Ctrl-C ends this screen").await;
    let screen = terminal.screen();
    let origin = format!("http://127.0.0.1:{}/#", home.endpoint().place.port());
    assert!(screen.contains(&origin), "{screen}");
    assert!(screen.matches('█').count() > 50, "a QR code: {screen}");
    assert!(screen.contains("Session \"first\" (aura) works in "), "{screen}");
    terminal.press(CTRL_C);
    assert!(terminal.ended().await.success());
    let pid = listener(&home);
    terminal.shows(&format!("The listener (process {pid}) and 1 session go on without this screen.")).await;
    terminal.shows("`aude down --sessions`").await;
    assert!(is_alive(pid));
    let host = home.host_pid(home.record("first")["id"].as_str().unwrap().parse().unwrap()).unwrap();
    let _ = home.ok(["start", "second", "--harness", "aura"]);

    // A second one finds both, and does not start another session.
    let mut again = Terminal::open(&home.command(["up", "--harness", "aura"]));
    again.shows("The listener of this machine was running already.").await;
    again.shows("Ctrl-C ends this screen").await;
    again.press(CTRL_C);
    again.shows("and 2 sessions go on").await;
    assert!(again.ended().await.success());
    assert_eq!(home.records().len(), 2);

    let _ = home.ok(["stop", "second"]);
    wait::until("the end of the second", || async { home.record("second")["host"].is_null().then_some(()) })
        .await;
    let output = home.run(["down", "--sessions"]);
    assert!(output.status.success());
    assert_eq!(
        (said(&output), printed(&output)),
        ("The listener and 1 session are stopped.\n".to_owned(), String::new())
    );
    for pid in [pid, host] {
        wait::until("the end", || async { (!is_alive(pid)).then_some(()) }).await;
    }
    assert_eq!(home.run(["down"]).status.code(), Some(3));
}

#[tokio::test]
async fn up_ends_with_its_listener_and_says_whether_that_was_meant() {
    let home = machine();
    let mut terminal = Terminal::open(&home.command(["up", "--harness", "aura"]));
    terminal.shows("Ctrl-C ends this screen").await;
    assert!(home.run(["down"]).status.success());
    terminal.shows("The listener was stopped from elsewhere").await;
    assert!(terminal.ended().await.success());

    let mut terminal = Terminal::open(&home.command(["up", "--harness", "aura"]));
    terminal.shows("Ctrl-C ends this screen").await;
    nix::sys::signal::kill(listener(&home), nix::sys::signal::Signal::SIGKILL).unwrap();
    terminal.shows("the listener of this machine died").await;
    assert_eq!(terminal.ended().await.code(), Some(1));
}

#[tokio::test]
async fn a_listener_that_cannot_read_its_settings_says_why_in_all_lines() {
    let home = machine();
    home.write_config("[start\nroots = 3");
    let said = said(&home.run(["start", "x", "--harness", "aura"]));
    assert!(said.contains("config.toml") && said.contains("2 | [start") && said.contains('^'), "{said}");
}

#[tokio::test]
async fn up_says_when_the_listener_is_of_another_version() {
    let home = running().await;
    let path = home.root().join("rc/listener.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut whereabouts: serde_json::Value = serde_json::from_str(&text).unwrap();
    whereabouts["version"] = "0.0.1-older".into();
    fs::write(&path, whereabouts.to_string()).unwrap();
    let mut terminal = Terminal::open(&home.command(["up", "--harness", "aura"]));
    terminal.shows("version 0.0.1-older").await;
    terminal.shows("`aude down`").await;
    terminal.shows("Ctrl-C ends this screen").await;
    terminal.press(CTRL_C);
    assert!(terminal.ended().await.success());
    let doctor = home.ok(["doctor"]);
    assert!(doctor.contains("0.0.1-older"), "{doctor}");
    fs::write(&path, text).unwrap();
    assert!(!home.ok(["doctor"]).contains("this program is"), "the same version needs no word");
}
