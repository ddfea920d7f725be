//! Markdown read into a small tree of what may be shown: text, never markup, and links to the web and to mail addresses only.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Containers within containers; what lies deeper is shown without its container, so that no text can exhaust the stack.
const DEPTH: usize = 24;

/// A block.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Block {
    /// A paragraph.
    Paragraph(Vec<Inline>),
    /// The text of an item of a tight list.
    Plain(Vec<Inline>),
    /// A heading of level 1 to 6.
    Heading(u8, Vec<Inline>),
    /// Code, and the language that its author named.
    Code(Option<String>, String),
    /// A quotation.
    Quote(Vec<Block>),
    /// A list, numbered from a number or not.
    List(Option<u64>, Vec<Point>),
    /// A table: its head and its rows.
    Table(Vec<Vec<Inline>>, Vec<Vec<Vec<Inline>>>),
    /// A line across.
    Rule,
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Point {
    /// Whether it is ticked, for an item of a task list.
    pub ticked: Option<bool>,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Inline {
    /// Text.
    Text(String),
    /// Code.
    Code(String),
    /// Strong text.
    Strong(Vec<Inline>),
    /// Text with emphasis.
    Emphasis(Vec<Inline>),
    /// Text that is struck out.
    Struck(Vec<Inline>),
    /// A link.
    Link(Target, Vec<Inline>),
    /// A picture, which is not loaded: where it is, and the words for it.
    Picture(Target, String),
    /// The end of a line.
    Break,
}

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// To an address that a person may follow, and what of it is shown.
    Address {
        /// The whole address.
        address: String,
        /// The host or the mail address, where the text of the link does not say it.
        shown: Option<String>,
    },
    /// Somewhere that we do not lead to; it is shown as text, where the text of the link does not say it.
    Elsewhere(Option<String>),
}

impl Target {
    fn of(written: &str, text: &str) -> Self {
        let clean: String = written.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
        let lower = clean.to_ascii_lowercase();
        let host = ["https://", "http://"].iter().find_map(|scheme| lower.strip_prefix(scheme)).map(|rest| {
            let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
            authority.rsplit('@').next().unwrap_or_default().to_owned()
        });
        let mail =
            lower.strip_prefix("mailto:").map(|rest| rest.split('?').next().unwrap_or_default().to_owned());
        match host.or(mail).filter(|shown| !shown.is_empty()) {
            Some(shown) => {
                let is_said = text.to_ascii_lowercase().contains(&shown);
                Self::Address { address: clean, shown: (!is_said).then_some(shown) }
            }
            None => Self::Elsewhere((!clean.is_empty() && !text.contains(&clean)).then_some(clean)),
        }
    }
}

/// The blocks of a text.
pub fn read(text: &str) -> Vec<Block> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut builder = Builder { stack: vec![Open::new(Container::Document)] };
    for event in Parser::new_ext(text, options) {
        builder.take(event);
    }
    builder.finish()
}

enum Container {
    Document,
    Paragraph,
    Heading(u8),
    Quote,
    List(Option<u64>),
    Point,
    Code(Option<String>),
    Table,
    Head,
    Row,
    Cell,
    Strong,
    Emphasis,
    Struck,
    Link(String),
    Image(String),
    /// Its content goes to what is around it.
    Transparent,
}

struct Open {
    container: Container,
    blocks: Vec<Block>,
    inlines: Vec<Inline>,
    points: Vec<Point>,
    rows: Vec<Vec<Vec<Inline>>>,
    cells: Vec<Vec<Inline>>,
    ticked: Option<bool>,
}

impl Open {
    fn new(container: Container) -> Self {
        Self {
            container,
            blocks: Vec::new(),
            inlines: Vec::new(),
            points: Vec::new(),
            rows: Vec::new(),
            cells: Vec::new(),
            ticked: None,
        }
    }

    /// Inline text that stands directly in a container of blocks becomes a block.
    fn settle(&mut self) {
        if !self.inlines.is_empty() {
            self.blocks.push(Block::Plain(std::mem::take(&mut self.inlines)));
        }
    }
}

struct Builder {
    stack: Vec<Open>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(end) => self.close(end),
            Event::Text(text) => self.text(&text),
            // Markup is shown as it was written: there is no way from here to the page's own.
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.inline(Inline::Code(text.into_string()));
            }
            Event::FootnoteReference(text) => self.text(&format!("[{text}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.inline(Inline::Break),
            Event::Rule => self.block(Block::Rule),
            Event::TaskListMarker(ticked) => {
                if let Some(open) = self.stack.last_mut() {
                    open.ticked = Some(ticked);
                }
            }
        }
    }

    fn open(&mut self, tag: Tag<'_>) {
        let container = match tag {
            Tag::Paragraph => Container::Paragraph,
            Tag::Heading { level, .. } => Container::Heading(depth_of(level)),
            Tag::BlockQuote(_) => Container::Quote,
            Tag::List(first) => Container::List(first),
            Tag::Item => Container::Point,
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                let language = info.split([' ', ',', '{']).next().unwrap_or_default();
                Container::Code((!language.is_empty()).then(|| language.to_owned()))
            }
            Tag::CodeBlock(CodeBlockKind::Indented) => Container::Code(None),
            Tag::HtmlBlock => Container::Code(Some("html".to_owned())),
            Tag::Table(_) => Container::Table,
            Tag::TableHead => Container::Head,
            Tag::TableRow => Container::Row,
            Tag::TableCell => Container::Cell,
            Tag::Strong => Container::Strong,
            Tag::Emphasis => Container::Emphasis,
            Tag::Strikethrough => Container::Struck,
            Tag::Link { dest_url, .. } => Container::Link(dest_url.into_string()),
            Tag::Image { dest_url, .. } => Container::Image(dest_url.into_string()),
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => Container::Transparent,
        };
        let is_structure = matches!(
            container,
            Container::Table | Container::Head | Container::Row | Container::Cell | Container::Code(_)
        );
        let is_deep = self.stack.len() > DEPTH && !is_structure;
        self.stack.push(Open::new(if is_deep { Container::Transparent } else { container }));
    }

    fn close(&mut self, _: TagEnd) {
        let Some(mut open) = self.stack.pop() else { return };
        match open.container {
            Container::Paragraph => self.block(Block::Paragraph(open.inlines)),
            Container::Heading(level) => self.block(Block::Heading(level, open.inlines)),
            Container::Quote => {
                open.settle();
                self.block(Block::Quote(open.blocks));
            }
            Container::List(first) => self.block(Block::List(first, open.points)),
            Container::Point => {
                open.settle();
                let point = Point { ticked: open.ticked, blocks: open.blocks };
                match self.stack.last_mut() {
                    Some(list) if matches!(list.container, Container::List(_)) => list.points.push(point),
                    Some(_) => point.blocks.into_iter().for_each(|block| self.block(block)),
                    None => {}
                }
            }
            Container::Code(language) => {
                let text = open.inlines.iter().map(plain_one).collect::<String>();
                self.block(Block::Code(language, text.trim_end_matches('\n').to_owned()));
            }
            Container::Table => {
                let mut rows = open.rows.into_iter();
                let head = rows.next().unwrap_or_default();
                self.block(Block::Table(head, rows.collect()));
            }
            Container::Head | Container::Row => {
                if let Some(table) = self.stack.last_mut() {
                    table.rows.push(open.cells);
                }
            }
            Container::Cell => {
                if let Some(row) = self.stack.last_mut() {
                    row.cells.push(open.inlines);
                }
            }
            Container::Strong => self.inline(Inline::Strong(open.inlines)),
            Container::Emphasis => self.inline(Inline::Emphasis(open.inlines)),
            Container::Struck => self.inline(Inline::Struck(open.inlines)),
            Container::Link(written) => {
                let target = Target::of(&written, &plain(&open.inlines));
                self.inline(Inline::Link(target, open.inlines));
            }
            // A picture would be fetched from wherever the agent says, so it is only a link.
            Container::Image(written) => {
                let text = plain(&open.inlines);
                self.inline(Inline::Picture(Target::of(&written, &text), text));
            }
            Container::Transparent | Container::Document => {
                open.settle();
                for point in open.points {
                    open.blocks.extend(point.blocks);
                }
                if let [Block::Plain(_)] = open.blocks.as_slice()
                    && let Some(Block::Plain(inlines)) = open.blocks.pop()
                {
                    inlines.into_iter().for_each(|inline| self.inline(inline));
                }
                open.blocks.into_iter().for_each(|block| self.block(block));
            }
        }
    }

    fn text(&mut self, text: &str) {
        let Some(open) = self.stack.last_mut() else { return };
        match open.inlines.last_mut() {
            Some(Inline::Text(before)) => before.push_str(text),
            Some(_) | None => open.inlines.push(Inline::Text(text.to_owned())),
        }
    }

    fn inline(&mut self, inline: Inline) {
        if let Some(open) = self.stack.last_mut() {
            open.inlines.push(inline);
        }
    }

    fn block(&mut self, block: Block) {
        if let Some(open) = self.stack.last_mut() {
            open.settle();
            open.blocks.push(block);
        }
    }

    fn finish(mut self) -> Vec<Block> {
        let mut document = self.stack.drain(..1).next().unwrap_or_else(|| Open::new(Container::Document));
        document.settle();
        document.blocks
    }
}

fn depth_of(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn plain_one(inline: &Inline) -> String {
    match inline {
        Inline::Text(text) | Inline::Code(text) | Inline::Picture(_, text) => text.clone(),
        Inline::Strong(parts) | Inline::Emphasis(parts) | Inline::Struck(parts) | Inline::Link(_, parts) => {
            plain(parts)
        }
        Inline::Break => "\n".to_owned(),
    }
}

/// The text alone.
fn plain(inlines: &[Inline]) -> String {
    inlines.iter().map(plain_one).collect()
}

/// The words of a text without its marks, for one line.
pub fn words(text: &str) -> String {
    fn of(blocks: &[Block], words: &mut Vec<String>) {
        for block in blocks {
            match block {
                Block::Paragraph(inlines) | Block::Plain(inlines) | Block::Heading(_, inlines) => {
                    words.push(plain(inlines));
                }
                Block::Code(_, text) => words.push(text.clone()),
                Block::Quote(blocks) => of(blocks, words),
                Block::List(_, points) => points.iter().for_each(|point| of(&point.blocks, words)),
                Block::Table(head, rows) => {
                    words.extend(std::iter::once(head).chain(rows).flatten().map(|cell| plain(cell)));
                }
                Block::Rule => {}
            }
        }
    }
    let mut words = Vec::new();
    of(&read(text), &mut words);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Inline {
        Inline::Text(text.to_owned())
    }

    fn target_of(markdown: &str) -> Target {
        match read(markdown).as_slice() {
            [Block::Paragraph(inlines)] => match inlines.as_slice() {
                [Inline::Link(target, _)] => target.clone(),
                other => panic!("no link alone: {other:?}"),
            },
            other => panic!("no paragraph alone: {other:?}"),
        }
    }

    #[test]
    fn markup_is_text() {
        for markdown in ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick=x>b</b>"]
        {
            let blocks = read(markdown);
            assert!(format!("{blocks:?}").contains('<'), "{blocks:?}");
        }
        assert_eq!(read("&lt;b>"), [Block::Paragraph(vec![text("<b>")])]);
    }

    #[test]
    fn only_the_web_and_mail_are_led_to() {
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "//evil.example",
            "src/main.rs",
        ] {
            assert!(matches!(target_of(&format!("[a](<{bad}>)")), Target::Elsewhere(_)), "{bad}");
        }
        assert!(matches!(target_of("[a](<java\tscript:alert(1)>)"), Target::Elsewhere(_)));
        let shown = |markdown: &str| match target_of(markdown) {
            Target::Address { shown, .. } => shown,
            Target::Elsewhere(_) => panic!("leads nowhere"),
        };
        assert_eq!(shown("[docs](https://docs.rs/a)"), Some("docs.rs".into()));
        assert_eq!(shown("[docs.rs](https://docs.rs/a)"), None);
        assert_eq!(shown("[bank.example](https://bank.example@evil.example/)"), Some("evil.example".into()));
        assert_eq!(
            shown("[bank.example](https://evil.example\\\\@bank.example/)"),
            Some("evil.example".into())
        );
        assert_eq!(shown("[mail](mailto:a@b.example?subject=x)"), Some("a@b.example".into()));
    }

    #[test]
    fn pictures_become_links() {
        let blocks = read("![cat](https://e.example/c.png)");
        assert!(
            matches!(&blocks[0], Block::Paragraph(inlines) if matches!(&inlines[0], Inline::Picture(Target::Address { .. }, text) if text == "cat"))
        );
    }

    #[test]
    fn lists_code_and_tables() {
        let blocks = read("1. a\n2. b\n\n```rust\nfn x() {}\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n- [x] done");
        assert!(matches!(&blocks[0], Block::List(Some(1), points) if points.len() == 2));
        assert_eq!(blocks[1], Block::Code(Some("rust".into()), "fn x() {}".into()));
        assert!(matches!(&blocks[2], Block::Table(head, rows) if head.len() == 2 && rows.len() == 1));
        assert!(matches!(&blocks[3], Block::List(None, points) if points[0].ticked == Some(true)));
    }

    #[test]
    fn deep_nesting_stays_shallow_and_keeps_its_text() {
        fn depth(blocks: &[Block]) -> usize {
            let of = |block: &Block| match block {
                Block::Quote(blocks) => 1 + depth(blocks),
                Block::List(_, points) => {
                    1 + points.iter().map(|point| depth(&point.blocks)).max().unwrap_or(0)
                }
                Block::Paragraph(_)
                | Block::Plain(_)
                | Block::Heading(..)
                | Block::Code(..)
                | Block::Table(..)
                | Block::Rule => 1,
            };
            blocks.iter().map(of).max().unwrap_or(0)
        }
        let blocks = read(&format!("{}deep", "> ".repeat(500)));
        assert!(depth(&blocks) <= DEPTH + 2);
        assert!(format!("{blocks:?}").contains("deep"));
        let blocks = read(&format!("{}deep", "- ".repeat(500)));
        assert!(depth(&blocks) <= DEPTH + 2);
        assert!(format!("{blocks:?}").contains("deep"));
    }

    #[test]
    fn the_words_of_a_text_have_no_marks() {
        assert_eq!(words("# A\n\n- **b** `c`\n- d\n\n```\ne\n```"), "A b c d e");
    }

    #[test]
    fn any_text_is_read() {
        for markdown in ["", "[", "```", "|a|\n|-", "**a", "> - 1. > x\n```\ny", "[a]: x\n[a]", "\u{0}"] {
            read(markdown);
        }
    }
}
