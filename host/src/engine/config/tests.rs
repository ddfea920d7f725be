//! Tests of the configuration.

use super::*;

fn config(files: &[&str]) -> Result<EngineConfig, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let directories: Vec<PathBuf> =
        (0..files.len()).map(|number| folder.path().join(number.to_string())).collect();
    for (directory, text) in directories.iter().zip(files) {
        std::fs::create_dir(directory).unwrap();
        std::fs::write(directory.join("config.toml"), text).unwrap();
    }
    EngineConfig::read(&directories)
}

#[test]
fn nothing_is_a_configuration_too() {
    let missing = PathBuf::from("/nowhere/at/all");
    let read = EngineConfig::read(std::slice::from_ref(&missing)).unwrap();
    assert_eq!(read, EngineConfig { directories: vec![missing], ..EngineConfig::default() });
    assert_eq!(read.limits.max_steps, MAX_STEPS);
}

#[test]
fn later_files_win_key_by_key() {
    let read = config(&[
        "[provider.a]\ntype = \"openai\"\nmodel = \"m\"\nretries = 2\n[tools]\nbash = \"deny\"\nread = \"allow\"",
        "[use]\nprovider = \"a\"\n[provider.a]\ntype = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1/\"\nmodel = \"n\"\n[tools]\nbash = \"confirm\"",
    ])
    .unwrap();
    let provider = &read.providers["a"];
    assert_eq!((provider.model.as_deref(), provider.retries), (Some("n"), 2));
    assert_eq!(provider.base_url, "http://127.0.0.1:1/v1");
    assert_eq!(read.policies.of("bash"), Some(Policy::Confirm));
    assert_eq!(read.policies.of("read"), Some(Policy::Allow));
}

#[test]
fn a_mistake_is_named_with_its_file_and_key() {
    for (text, said) in [
        ("prot = 1", "prot"),
        ("[provider.a]\ntype = \"openai\"\nbase_ur = \"x\"", "base_ur"),
        ("[provider.a]\nmodel = \"x\"", "needs a `type`"),
        ("[provider.a]\ntype = \"llamacpp\"", "base_url"),
        ("[provider.a]\ntype = \"openai\"\nbase_url = \"http://me:secret@x\"", "no user"),
        ("[provider.a]\ntype = \"openai\"\napi_key_env = \"sk-123\"", "not a key itself"),
        (
            "[provider.a]\ntype = \"openai\"\n[provider.a.headers]\nAuthorization = \"Bearer x\"",
            "headers_env",
        ),
        ("[provider.a]\ntype = \"openai\"\ntimeout = 0", "timeout"),
        ("[provider.a]\ntype = \"openai\"\napi_key = \"sk-123\"", "line 3: unknown field `api_key`"),
        ("[provider.\"a b\"]\ntype = \"openai\"", "a name has"),
        ("[tools]\nbash = \"never\"", "never"),
        ("[mcp.x]\nurl = \"http://x\"", "not supported"),
        ("[mcp.x]\nrequired = true", "needs a `command`"),
        ("[guardrail.x]\ninput = \"(\"", "guardrail.x.input"),
        ("[guardrail.x]", "needs a pattern"),
        ("[hook.x]\ncommand = \"x\"", "on = "),
        ("[limits]\nmax_steps = 0", "max_steps"),
        ("[limits]\nmax_steps = -1", "line 2: invalid value"),
        ("[", "config.toml"),
    ] {
        let error = config(&["", text]).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("1/config.toml"), "{text}: {error}");
        assert!(!error.contains("sk-123"), "{error}");
    }
}

#[test]
fn paths_count_from_the_directory_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "[provider.s]\ntype = \"script\"\nscript = \"steps.toml\"\n[sandbox]\nwrite = [\"out\", \"/tmp/x\"]";
    std::fs::write(folder.path().join("config.toml"), text).unwrap();
    let read = EngineConfig::read(&[folder.path().to_owned()]).unwrap();
    assert_eq!(read.providers["s"].script, Some(folder.path().join("steps.toml")));
    let sandbox = read.sandbox.unwrap();
    assert_eq!(sandbox.write, [folder.path().join("out"), PathBuf::from("/tmp/x")]);
    assert!(sandbox.has_network);
}
