use super::*;
use proptest::prelude::*;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What the tests count: lines that begin with `T`. Lines that begin with `!` are damaged in the caller's eyes.
fn look(_: u64, text: &str) -> Mark {
    match text.as_bytes()[0] {
        b'T' => Mark::Counted,
        b'!' => Mark::Damaged,
        _ => Mark::Plain,
    }
}

struct Scratch {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        Self { _directory: directory, path }
    }

    fn with(content: &[u8]) -> Self {
        let scratch = Self::new();
        files::write_private(&scratch.path, content).unwrap();
        scratch
    }

    fn open(&self) -> Opened {
        Writer::open(&self.path, &mut look).unwrap()
    }

    /// All lines that a fresh reader serves.
    fn served(&self) -> Vec<(u64, String)> {
        let mut reader = Reader::new(&self.path);
        let last = reader.extend(Through::End, &mut look).unwrap();
        all(&mut reader.cursor(0).unwrap(), last, 100, Select::Every)
    }
}

fn all(cursor: &mut Cursor, through: u64, budget: usize, select: Select) -> Vec<(u64, String)> {
    let mut lines = Vec::new();
    loop {
        let more = cursor.read(through, budget, select).unwrap();
        if more.is_empty() {
            return lines;
        }
        lines.extend(more.into_iter().map(|line| (line.number, line.text)));
    }
}

#[test]
fn a_new_log_is_private_and_counts_from_one() {
    let scratch = Scratch::new();
    let Opened { mut writer, damage } = scratch.open();
    assert_eq!((writer.durable(), damage), (0, Damage::default()));
    assert_eq!(writer.append_batch(&["T1", "2"]).unwrap(), 2);
    assert_eq!(writer.append_batch(&[b"T3".to_vec()]).unwrap(), 3);
    assert_eq!(std::fs::read(&scratch.path).unwrap(), b"T1\n2\nT3\n");
    assert!(files::read_private(&scratch.path, 100).is_ok());
    drop(writer);
    let mut seen = Vec::new();
    let reopened = Writer::open(&scratch.path, &mut |number, text| {
        seen.push((number, text.to_owned()));
        Mark::Plain
    });
    assert_eq!(reopened.unwrap().writer.durable(), 3);
    assert_eq!(seen, [(1, "T1".to_owned()), (2, "2".to_owned()), (3, "T3".to_owned())]);
}

#[test]
fn an_exposed_log_is_refused_with_its_mend() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::with(b"a\n");
    std::fs::set_permissions(&scratch.path, std::fs::Permissions::from_mode(0o644)).unwrap();
    for said in [
        Writer::open(&scratch.path, &mut look).unwrap_err().to_string(),
        Reader::new(&scratch.path).extend(Through::End, &mut look).unwrap_err().to_string(),
        sync(&scratch.path).unwrap_err().to_string(),
    ] {
        assert!(said.contains(&format!("`chmod 600 {}`", files::shell_quoted(&scratch.path))), "{said}");
    }
}

#[test]
fn a_second_writer_is_refused_and_told_who_writes() {
    let scratch = Scratch::new();
    assert_eq!(locked(&scratch.path).unwrap(), Liveness::Gone);
    let opened = scratch.open();
    let me = Some(std::process::id());
    assert_eq!(locked(&scratch.path).unwrap(), Liveness::Live { holder: me });
    let refused = Writer::open(&scratch.path, &mut look).unwrap_err();
    assert!(matches!(refused, LogError::Held { holder, .. } if holder == me), "{refused}");
    drop(opened);
    assert_eq!(locked(&scratch.path).unwrap(), Liveness::Gone);
    scratch.open();
}

#[test]
fn probing_for_a_writer_never_keeps_one_out() {
    let scratch = Scratch::with(b"a\n");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Acquire) {
                    locked(&scratch.path).unwrap();
                }
            });
        }
        for _ in 0..50 {
            scratch.open();
        }
        is_done.store(true, std::sync::atomic::Ordering::Release);
    });
}

#[test]
fn a_torn_last_line_is_cut_once_and_reported() {
    let scratch = Scratch::with(b"T1\n2\n{\"torn");
    let opened = scratch.open();
    assert_eq!((opened.writer.durable(), opened.damage.cut, opened.damage.count), (2, 6, 0));
    assert_eq!(std::fs::read(&scratch.path).unwrap(), b"T1\n2\n");
    drop(opened);
    assert_eq!(scratch.open().damage, Damage::default());
}

#[test]
fn damaged_middle_lines_keep_their_number_and_their_bytes() {
    let content = b"T1\n\xff\xfe\n\n!no object\nT5\n!\n7\n";
    let scratch = Scratch::with(content);
    let mut opened = scratch.open();
    assert_eq!(opened.damage, Damage { cut: 0, lines: vec![2..=4, 6..=6], count: 4 });
    assert_eq!(opened.writer.append_batch(&["T8"]).unwrap(), 8);
    assert_eq!(scratch.served(), [(1, "T1".into()), (5, "T5".into()), (7, "7".into()), (8, "T8".into())]);
    assert!(std::fs::read(&scratch.path).unwrap().starts_with(content), "nothing is rewritten");
    let mut reader = Reader::new(&scratch.path);
    reader.extend(Through::End, &mut look).unwrap();
    assert_eq!(reader.damage().lines, [2..=4, 6..=6]);
}

#[test]
fn the_list_of_damage_is_bounded_and_its_count_is_not() {
    let scratch = Scratch::with(&b"!\na\n".repeat(1000));
    let damage = scratch.open().damage;
    assert_eq!((damage.lines.len(), damage.count), (DAMAGE_LISTED, 1000));
    assert_eq!(damage.lines[63], 127..=127);
}

#[test]
fn damage_is_said_in_a_sentence() {
    let damage = |content: &[u8]| Scratch::with(content).open().damage;
    let sound = damage(b"a\nb\n");
    assert_eq!((sound.lines_sentence(), sound.cut_sentence()), (None, None));
    let said = |content| damage(content).lines_sentence().unwrap();
    assert_eq!(said(b"a\n!\nb"), "Line 2 of this log is damaged and is left out.");
    assert_eq!(said(b"!\n!\na\n!\na\n!\n"), "Lines 1–2, 4 and 6 of this log are damaged and are left out.");
    assert!(
        said(&b"!\na\n".repeat(65)).ends_with(", 127 and others of this log are damaged and are left out.")
    );
    assert!(damage(b"a\ntorn").cut_sentence().unwrap().contains("4 bytes"));
}

#[test]
fn a_line_at_the_limit_is_served_and_one_over_it_is_damaged() {
    let scratch = Scratch::new();
    let mut file = std::fs::File::create(&scratch.path).unwrap();
    std::fs::set_permissions(&scratch.path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for length in [LINE_LIMIT, LINE_LIMIT + 1, 3, 2 * LINE_LIMIT + 7, 4] {
        file.write_all(&vec![b'T'; length]).unwrap();
        file.write_all(b"\n").unwrap();
    }
    file.write_all(&vec![b'T'; LINE_LIMIT + 1]).unwrap();
    let opened = scratch.open();
    assert_eq!(opened.damage, Damage { cut: LINE_LIMIT as u64 + 1, lines: vec![2..=2, 4..=4], count: 2 });
    let served: Vec<_> = scratch.served().into_iter().map(|(number, text)| (number, text.len())).collect();
    assert_eq!(served, [(1, LINE_LIMIT), (3, 3), (5, 4)]);
}

#[test]
fn a_reader_follows_a_writer_up_to_what_it_is_allowed_to_see() {
    let scratch = Scratch::new();
    let mut reader = Reader::new(&scratch.path);
    assert_eq!(reader.extend(Through::End, &mut look).unwrap(), 0);
    let mut early = reader.cursor(0).unwrap();
    assert!(early.read(10, 100, Select::Every).unwrap().is_empty());
    let mut writer = scratch.open().writer;
    writer.append_batch(&["T1", "2", "T3"]).unwrap();
    assert_eq!(reader.extend(Through::Line(2), &mut look).unwrap(), 2);
    assert_eq!(all(&mut early, 10, 100, Select::Every), [(1, "T1".into()), (2, "2".into())]);
    assert_eq!(reader.extend(Through::Line(1), &mut look).unwrap(), 2, "a lower number changes nothing");
    let beyond = reader.extend(Through::Line(4), &mut look).unwrap_err();
    assert!(matches!(beyond, LogError::Beyond { end: 3, asked: 4, .. }), "{beyond}");
    assert_eq!(all(&mut early, 10, 100, Select::Every), [(3, "T3".into())]);
    assert!(matches!(reader.cursor(4), Err(LogError::Beyond { .. })));
    let mut late = reader.cursor(3).unwrap();
    assert!(late.read(10, 100, Select::Every).unwrap().is_empty());
    writer.append_batch(&["T4"]).unwrap();
    reader.extend(Through::Line(4), &mut look).unwrap();
    assert_eq!(all(&mut late, 10, 100, Select::Every), [(4, "T4".into())]);
    assert_eq!(
        (late.position(), reader.counted_after(0), reader.counted_after(3), reader.counted_after(99)),
        (4, 3, 1, 0)
    );
}

#[test]
fn what_is_not_yet_allowed_is_not_read_ahead() {
    let scratch = Scratch::with(b"T1\nold text, never durable\n");
    let mut reader = Reader::new(&scratch.path);
    reader.extend(Through::Line(1), &mut look).unwrap();
    let mut cursor = reader.cursor(0).unwrap();
    assert_eq!(all(&mut cursor, 9, 100, Select::Every).len(), 1);
    // The writer took the second line back and wrote another.
    let file = OpenOptions::new().append(true).open(&scratch.path).unwrap();
    file.set_len(3).unwrap();
    (&file).write_all(b"T2\nT3\n").unwrap();
    reader.extend(Through::Line(3), &mut look).unwrap();
    assert_eq!(all(&mut cursor, 9, 100, Select::Every), [(2, "T2".into()), (3, "T3".into())]);
}

#[test]
fn a_budget_bounds_what_is_read_at_once() {
    let scratch = Scratch::with(&b"0123456789\n".repeat(100));
    let mut reader = Reader::new(&scratch.path);
    reader.extend(Through::End, &mut look).unwrap();
    let mut cursor = reader.cursor(0).unwrap();
    assert_eq!(cursor.read(100, 25, Select::Every).unwrap().len(), 3);
    assert_eq!(cursor.read(100, 1, Select::Every).unwrap().len(), 1);
    assert_eq!(cursor.read(6, 1000, Select::Every).unwrap().len(), 2);
    assert_eq!(cursor.position(), 6);
}

#[test]
fn a_log_that_another_hand_replaced_or_shortened_is_noticed() {
    let scratch = Scratch::with(b"T1\nT2\n");
    let mut reader = Reader::new(&scratch.path);
    reader.extend(Through::End, &mut look).unwrap();
    let mut cursor = reader.cursor(0).unwrap();
    OpenOptions::new().write(true).open(&scratch.path).unwrap().set_len(3).unwrap();
    assert!(matches!(reader.cursor(0), Err(LogError::Changed { .. })));
    assert!(matches!(cursor.read(9, 100, Select::Every), Err(LogError::Changed { .. })));
    files::write_private(&scratch.path, b"other\nother\nother\n").unwrap();
    assert!(matches!(reader.extend(Through::Line(3), &mut look), Err(LogError::Changed { .. })));
    std::fs::remove_file(&scratch.path).unwrap();
    assert!(matches!(reader.cursor(0), Err(LogError::Changed { .. })));
}

#[test]
fn many_readers_follow_one_writer_and_see_every_line_once() {
    const LINES: u64 = 2_000;
    let scratch = Scratch::new();
    let mut writer = scratch.open().writer;
    let shared = std::sync::Mutex::new(Reader::new(&scratch.path));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while writer.durable() < LINES {
                let next = writer.durable() + 1;
                let batch: Vec<_> = (next..next + 20).map(|number| format!("T{number}")).collect();
                let durable = writer.append_batch(&batch).unwrap();
                shared.lock().unwrap().extend(Through::Line(durable), &mut look).unwrap();
            }
        });
        for client in 0..3 {
            let shared = &shared;
            scope.spawn(move || {
                let mut cursor = shared.lock().unwrap().cursor(0).unwrap();
                let mut expected = 1;
                while expected <= LINES {
                    for line in cursor.read(u64::MAX, 50 + client, Select::Every).unwrap() {
                        assert_eq!((line.number, line.text), (expected, format!("T{expected}")));
                        expected += 1;
                    }
                }
            });
        }
    });
}

/// A log of any kind of line: the bytes of each, without `\n`.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "T[a-zA-Zäöü🦀 \"{}]{0,30}".prop_map(String::into_bytes),
        3 => "[a-z]{1,60}".prop_map(String::into_bytes),
        1 => "![a-z]{0,5}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>().prop_filter("a line break", |byte| *byte != b'\n'), 0..20),
    ]
}

fn judged(line: &[u8]) -> Mark {
    match std::str::from_utf8(line) {
        Ok(text) if !text.is_empty() => look(0, text),
        _ => Mark::Damaged,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn cut_anywhere_exactly_the_complete_lines_survive(lines in proptest::collection::vec(any_line(), 1..5)) {
        let mut whole = Vec::new();
        for line in &lines {
            whole.extend_from_slice(line);
            whole.push(b'\n');
        }
        for cut in 0..=whole.len() {
            let torn = &whole[..cut];
            let complete = torn.iter().filter(|byte| **byte == b'\n').count();
            let end = torn.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let scratch = Scratch::with(torn);
            let mut opened = scratch.open();
            prop_assert_eq!(opened.writer.durable(), complete as u64);
            prop_assert_eq!(opened.damage.cut, (cut - end) as u64);
            prop_assert_eq!(&std::fs::read(&scratch.path).unwrap(), &torn[..end]);
            opened.writer.append_batch(&["Tnext"]).unwrap();
            let mut expected: Vec<_> = (1u64..).zip(&lines[..complete]).filter(|(_, line)| judged(line) != Mark::Damaged)
                .map(|(number, line)| (number, String::from_utf8(line.clone()).unwrap())).collect();
            expected.push((complete as u64 + 1, "Tnext".to_owned()));
            prop_assert_eq!(scratch.served(), expected);
        }
    }

    #[test]
    fn the_index_agrees_with_counting_by_hand(
        lines in proptest::collection::vec(any_line(), 0..400),
        steps in proptest::collection::vec(1u64..150, 0..8),
        budget in 1usize..2000,
    ) {
        let mut whole = Vec::new();
        for line in &lines {
            whole.extend_from_slice(line);
            whole.push(b'\n');
        }
        let scratch = Scratch::with(&whole);
        let mut reader = Reader::new(&scratch.path);
        let mut seen = 0;
        for step in steps {
            seen = (seen + step).min(lines.len() as u64);
            prop_assert_eq!(reader.extend(Through::Line(seen), &mut look).unwrap(), seen);
        }
        let last = reader.extend(Through::End, &mut look).unwrap();
        prop_assert_eq!(last, lines.len() as u64);
        for since in 0..=lines.len() {
            let after: Vec<_> = (1u64..).zip(&lines).skip(since).map(|(number, line)| (number, judged(line), line)).collect();
            let counted: Vec<_> = after.iter().filter(|(_, mark, _)| *mark == Mark::Counted).map(|(number, ..)| *number).collect();
            prop_assert_eq!(reader.counted_after(since as u64), counted.len() as u64);
            if since % 37 == 0 || since == lines.len() {
                let read = all(&mut reader.cursor(since as u64).unwrap(), last, budget, Select::Counted);
                prop_assert_eq!(read.iter().map(|(number, _)| *number).collect::<Vec<_>>(), counted);
                let sound: Vec<_> = after.iter().filter(|(_, mark, _)| *mark != Mark::Damaged)
                    .map(|(number, _, line)| (*number, String::from_utf8(line.to_vec()).unwrap())).collect();
                prop_assert_eq!(all(&mut reader.cursor(since as u64).unwrap(), last, budget, Select::Every), sound);
            }
        }
    }
}

/// The variable by which this test program, started by itself, knows which log to fill or hold.
const PART: &str = "AUDE_TEST_LOG";

/// Starts one of the `part_…` tests below as a process of its own, through a shell that first runs `prelude`.
fn part(name: &str, path: &Path, prelude: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{prelude}; exec \"$0\" --exact log::tests::{name} --ignored --nocapture");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(PART, path);
    command
}

#[test]
fn a_file_that_may_not_grow_keeps_whole_batches_only() {
    let scratch = Scratch::new();
    // `ulimit -f` counts blocks of 512 bytes; with SIGXFSZ ignored a write past it fails as on a full disk.
    let ended = part("part_fill_until_refused", &scratch.path, "trap '' XFSZ; ulimit -f 8")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success());
    let opened = scratch.open();
    assert_eq!((opened.damage, opened.writer.durable() % 2), (Damage::default(), 0));
    assert!(opened.writer.durable() > 0);
}

#[test]
#[ignore = "a part of a_file_that_may_not_grow_keeps_whole_batches_only"]
fn part_fill_until_refused() {
    let mut writer = Writer::open(Path::new(&std::env::var_os(PART).unwrap()), &mut look).unwrap().writer;
    let batch = ["T".repeat(150), "x".repeat(151)];
    let refused = loop {
        if let Err(refused) = writer.append_batch(&batch) {
            break refused;
        }
    };
    assert!(matches!(refused, LogError::Refused { .. }), "{refused}");
    assert!(writer.append_batch(&batch).is_err());
    writer.append_batch(&["s", "t"]).unwrap();
}

#[test]
fn the_lock_of_a_killed_writer_is_free_and_its_lines_stay() {
    let scratch = Scratch::new();
    let mut child = part("part_write_and_hold", &scratch.path, ":")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "written\n" {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "the part ended early");
    }
    assert_eq!(locked(&scratch.path).unwrap(), Liveness::Live { holder: Some(child.id()) });
    let refused = Writer::open(&scratch.path, &mut look).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {}", child.id())), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(locked(&scratch.path).unwrap(), Liveness::Gone);
    assert_eq!(scratch.open().writer.durable(), 2);
}

#[test]
#[ignore = "a part of the_lock_of_a_killed_writer_is_free_and_its_lines_stay"]
fn part_write_and_hold() {
    let mut writer = Writer::open(Path::new(&std::env::var_os(PART).unwrap()), &mut look).unwrap().writer;
    writer.append_batch(&["T1", "T2"]).unwrap();
    std::io::stdout().write_all(b"\nwritten\n").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
