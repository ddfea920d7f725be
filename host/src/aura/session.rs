//! `aura session`: the store's operations without a server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::output::{self, Form};
use super::root::Root;
use crate::automation::error::AutomationError;
use crate::automation::store::{Fork, Import, Store, Summary};
use crate::text::one_line;

/// Characters of a title in a list.
const TITLE: usize = 60;

/// Look at stored sessions, copy them in and out, fork and freeze them
#[derive(Debug, Args)]
pub(super) struct Session {
    #[command(subcommand)]
    operation: Operation,
    /// Answer with one JSON object on standard output, and errors on standard error
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Operation {
    /// List the sessions, that which changed last first
    List,
    /// Show one session
    Show {
        /// The session
        id: String,
    },
    /// Store a session that was exported
    Import {
        /// The file
        file: PathBuf,
        /// Store it under this id; else its own
        #[arg(long)]
        id: Option<String>,
        /// Let it never change again
        #[arg(long)]
        freeze: bool,
    },
    /// Write a session to a file, byte for byte
    Export {
        /// The session
        id: String,
        /// The file; never replaced
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Copy a session under a new id, to go on with the copy
    Fork {
        /// The session that is copied
        parent: String,
        /// The id of the copy
        #[arg(long, value_name = "CHILD")]
        id: String,
        /// The title of the copy; else the parent's
        #[arg(long)]
        title: Option<String>,
        /// Refuse where the parent has another revision
        #[arg(long, value_name = "SHA256")]
        expect_revision: Option<String>,
    },
    /// Let a session never change again
    Freeze {
        /// The session
        id: String,
        /// Refuse where it has another revision
        #[arg(long, value_name = "SHA256")]
        expect_revision: Option<String>,
    },
}

impl Session {
    pub(super) fn run(self, root: &Root) -> ExitCode {
        let form = if self.json { Form::Json } else { Form::Text };
        match self.operation.answer(root, form) {
            Ok(answer) => output::line(&answer),
            Err(error) => output::failed(&error, form),
        }
    }
}

impl Operation {
    /// What is to be printed.
    fn answer(self, root: &Root, form: Form) -> Result<String, AutomationError> {
        let store = || root.write_home().map(|home| Store::of(&home));
        let revision = |text: Option<String>| text.map(|text| text.parse()).transpose();
        match self {
            Self::List => {
                let listing = store()?.list()?;
                Ok(said(form, &listing, || {
                    let sessions = listing.sessions.iter().map(line);
                    let warnings = listing.warnings.iter().map(|warning| format!("warning: {warning}"));
                    let lines: Vec<String> = sessions.chain(warnings).collect();
                    if lines.is_empty() { "no sessions yet".to_owned() } else { lines.join("\n") }
                }))
            }
            Self::Show { id } => {
                let id = id.parse()?;
                let summary = store()?.show(&id)?;
                Ok(said(form, &summary, || details(&summary)))
            }
            Self::Import { file, id, freeze } => {
                let id = id.map(|id| id.parse()).transpose()?;
                let imported = store()?.import(&Import { source: file, id, freeze })?;
                Ok(said(form, &imported, || {
                    let what = match (imported.created, imported.frozen_now) {
                        (true, false) => "imported",
                        (true, true) => "imported and frozen",
                        (false, true) => "was there already; frozen now",
                        (false, false) => "was there already",
                    };
                    format!("{}: {what}", imported.session.id)
                }))
            }
            Self::Export { id, output } => {
                let id = id.parse()?;
                let exported = store()?.export(&id, &output)?;
                Ok(said(form, &exported, || {
                    let what = if exported.written { "written to" } else { "is already in" };
                    format!("{}: {what} {}", exported.session.id, exported.path)
                }))
            }
            Self::Fork { parent, id, title, expect_revision } => {
                let (parent, child, expected) = (parent.parse()?, id.parse()?, revision(expect_revision)?);
                let forked = store()?.fork(&Fork { parent, child, title, expected })?;
                Ok(said(form, &forked, || {
                    let what = if forked.created { "forked from" } else { "was already forked from" };
                    format!("{}: {what} {}", forked.session.id, forked.parent.id)
                }))
            }
            Self::Freeze { id, expect_revision } => {
                let (id, expected) = (id.parse()?, revision(expect_revision)?);
                let frozen = store()?.freeze(&id, expected.as_ref())?;
                Ok(said(form, &frozen, || {
                    format!(
                        "{}: {}",
                        frozen.session.id,
                        if frozen.changed { "frozen" } else { "was frozen already" }
                    )
                }))
            }
        }
    }
}

fn said(form: Form, answer: &impl Serialize, text: impl FnOnce() -> String) -> String {
    match form {
        // What is printed is made of the contract's own types, which have no maps with other keys than text.
        Form::Json => serde_json::to_string(answer).unwrap_or_default(),
        Form::Text => crate::text::strip_controls(&text()).into_owned(),
    }
}

fn line(summary: &Summary) -> String {
    let frozen = if summary.frozen { "  frozen" } else { "" };
    let title = one_line(&summary.title, TITLE);
    format!("{}  {}  {:>5} messages{frozen}  {title}", summary.id, summary.updated_at, summary.messages)
        .trim_end()
        .to_owned()
}

fn details(summary: &Summary) -> String {
    let mut lines = vec![
        format!("id        {}", summary.id),
        format!("title     {}", one_line(&summary.title, TITLE * 4)),
        format!("created   {}", summary.created_at),
        format!("updated   {}", summary.updated_at),
        format!("revision  {}", summary.revision),
        format!("messages  {}", summary.messages),
        format!("frozen    {}", if summary.frozen { "yes" } else { "no" }),
    ];
    if let Some(parent) = &summary.parent {
        lines.push(format!("parent    {} at {}", parent.id, parent.revision));
    }
    lines.join("\n")
}
