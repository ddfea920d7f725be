//! Draws the Markdown tree. A block that stays the same while text grows is not drawn again.

use std::hash::{DefaultHasher, Hash, Hasher};

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;

use crate::browser;
use crate::i18n::t;
use shared::markdown::{Block, Inline, Point, Target, read};

/// A text in Markdown.
#[component]
pub(crate) fn Markdown(
    /// The text, which may grow.
    #[prop(into)]
    text: Signal<String>,
) -> impl IntoView {
    let blocks = move || {
        let blocks = text.with(|text| read(text));
        blocks
            .into_iter()
            .enumerate()
            .map(|(place, block)| {
                let mut hasher = DefaultHasher::new();
                block.hash(&mut hasher);
                ((place, hasher.finish()), block)
            })
            .collect::<Vec<_>>()
    };
    view! {
        <div class="prose">
            <For each=blocks key=|(key, _)| *key children=|(_, block)| block_view(block)/>
        </div>
    }
}

fn block_view(block: Block) -> AnyView {
    match block {
        Block::Paragraph(inlines) => view! { <p>{inline_views(inlines)}</p> }.into_any(),
        Block::Plain(inlines) => view! { <span>{inline_views(inlines)}</span> }.into_any(),
        // The page has its own first headings.
        Block::Heading(1 | 2, inlines) => view! { <h3>{inline_views(inlines)}</h3> }.into_any(),
        Block::Heading(3, inlines) => view! { <h4>{inline_views(inlines)}</h4> }.into_any(),
        Block::Heading(_, inlines) => view! { <h5>{inline_views(inlines)}</h5> }.into_any(),
        Block::Code(language, text) => view! { <CodeBlock language=language text=text/> }.into_any(),
        Block::Quote(blocks) => view! { <blockquote>{block_views(blocks)}</blockquote> }.into_any(),
        Block::List(Some(first), points) => {
            view! { <ol start=first.to_string()>{point_views(points)}</ol> }.into_any()
        }
        Block::List(None, points) => view! { <ul>{point_views(points)}</ul> }.into_any(),
        Block::Table(head, rows) => view! {
            <div class="table" tabindex="0">
                <table>
                    <thead>
                        <tr>{head.into_iter().map(|cell| view! { <th>{inline_views(cell)}</th> }).collect_view()}</tr>
                    </thead>
                    <tbody>
                        {rows
                            .into_iter()
                            .map(|row| {
                                view! {
                                    <tr>{row.into_iter().map(|cell| view! { <td>{inline_views(cell)}</td> }).collect_view()}</tr>
                                }
                            })
                            .collect_view()}
                    </tbody>
                </table>
            </div>
        }
        .into_any(),
        Block::Rule => view! { <hr/> }.into_any(),
    }
}

fn block_views(blocks: Vec<Block>) -> Vec<AnyView> {
    blocks.into_iter().map(block_view).collect()
}

fn point_views(points: Vec<Point>) -> Vec<AnyView> {
    let point = |point: Point| {
        let tick = point.ticked.map(|ticked| {
            view! { <input type="checkbox" disabled checked=ticked aria-label=if ticked { t().step_done() } else { t().step_pending() }/> }
        });
        view! { <li>{tick} {block_views(point.blocks)}</li> }.into_any()
    };
    points.into_iter().map(point).collect()
}

fn inline_views(inlines: Vec<Inline>) -> Vec<AnyView> {
    inlines.into_iter().map(inline_view).collect()
}

fn inline_view(inline: Inline) -> AnyView {
    match inline {
        Inline::Text(text) => text.into_any(),
        Inline::Code(text) => view! { <code>{text}</code> }.into_any(),
        Inline::Strong(parts) => view! { <strong>{inline_views(parts)}</strong> }.into_any(),
        Inline::Emphasis(parts) => view! { <em>{inline_views(parts)}</em> }.into_any(),
        Inline::Struck(parts) => view! { <del>{inline_views(parts)}</del> }.into_any(),
        Inline::Link(Target::Address { address, shown }, parts) => view! {
            <a href=address.clone() title=address target="_blank" rel="noopener noreferrer">
                {inline_views(parts)}
            </a>
            {shown.map(|shown| view! { <span class="target">{format!(" ({shown})")}</span> })}
        }
        .into_any(),
        Inline::Link(Target::Elsewhere(shown), parts) => view! {
            <span>{inline_views(parts)}</span>
            {shown.map(|shown| view! { <span class="target">{format!(" ({shown})")}</span> })}
        }
        .into_any(),
        Inline::Picture(target, text) => {
            let words = format!("{}: {text}", t().picture());
            inline_view(Inline::Link(target, vec![Inline::Text(words)]))
        }
        Inline::Break => view! { <br/> }.into_any(),
    }
}

/// Code, with its language and the way to copy it.
#[component]
fn CodeBlock(language: Option<String>, text: String) -> impl IntoView {
    view! {
        <div class="code">
            <div class="code-head">
                <span>{language}</span>
                <CopyButton text=text.clone()/>
            </div>
            <pre tabindex="0"><code>{text}</code></pre>
        </div>
    }
}

/// Copies a text, and says whether that worked.
#[component]
pub(crate) fn CopyButton(text: String) -> impl IntoView {
    let word = RwSignal::new(t().copy());
    let copy = move |_| {
        let text = text.clone();
        spawn_local(async move {
            let is_copied = browser::copy(&text).await;
            let _ = word.try_set(if is_copied { t().copied() } else { t().copy_failed() });
            set_timeout(
                move || {
                    let _ = word.try_set(t().copy());
                },
                std::time::Duration::from_secs(2),
            );
        });
    };
    view! {
        <button class="copy" on:click=copy>
            {move || word.get()}
        </button>
    }
}
