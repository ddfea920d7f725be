//! Drawings in the text's own colour; what they mean stands beside them or in a label.

use leptos::prelude::*;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An arrow to the left.
    Back,
    /// A cross of two lines: something new.
    Plus,
    /// A dustbin.
    Bin,
    /// A switch.
    Power,
    /// An arrow up: send.
    Up,
    /// An arrow down: to the end.
    Down,
    /// A square: end what runs.
    Square,
    /// A prompt.
    Terminal,
    /// A pencil.
    Pencil,
    /// A page.
    Page,
    /// A lens.
    Lens,
    /// A globe.
    Globe,
    /// A bulb.
    Bulb,
    /// A wrench.
    Wrench,
    /// A tick.
    Tick,
    /// An x.
    Cross,
    /// A circle with a bar.
    Denied,
    /// A list with ticks.
    List,
}

/// A drawing.
#[component]
pub(crate) fn Icon(shape: Shape) -> impl IntoView {
    let path = match shape {
        Shape::Back => "M15 5l-7 7 7 7",
        Shape::Plus => "M12 5v14M5 12h14",
        Shape::Bin => "M4 7h16M10 11v6M14 11v6M6 7l1 12a2 2 0 002 2h6a2 2 0 002-2l1-12M9 7V4h6v3",
        Shape::Power => "M12 3v8M6.5 6.5a8 8 0 1011 0",
        Shape::Up => "M12 19V5M5 12l7-7 7 7",
        Shape::Down => "M12 5v14M5 12l7 7 7-7",
        Shape::Square => "M7 7h10v10H7z",
        Shape::Terminal => "M4 6l6 6-6 6M12 19h8",
        Shape::Pencil => "M4 20l4-1L20 7a2 2 0 00-3-3L5 16l-1 4z",
        Shape::Page => "M6 3h8l4 4v14H6zM14 3v4h4M9 13h6M9 17h6",
        Shape::Lens => "M10.5 17a6.5 6.5 0 100-13 6.5 6.5 0 000 13zM15.5 15.5L20 20",
        Shape::Globe => "M12 21a9 9 0 100-18 9 9 0 000 18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
        Shape::Bulb => {
            "M9 18h6M10 21h4M12 3a6 6 0 00-4 10.5c.8.8 1 1.500 1 2.500h6c0-1 .2-1.700 1-2.500A6 6 0 0012 3z"
        }
        Shape::Wrench => "M14.500 6.500a4 4 0 00-5.400 5L4 16.500 7.500 20l5-5a4 4 0 005-5.400L15 12l-3-3z",
        Shape::Tick => "M5 12.500l4.500 4.500L19 7",
        Shape::Cross => "M6 6l12 12M18 6L6 18",
        Shape::Denied => "M12 21a9 9 0 100-18 9 9 0 000 18zM6 6l12 12",
        Shape::List => "M4 6l1.500 1.500L8 5M4 13l1.500 1.500L8 12M11 6.500h9M11 13.500h9M11 20h9M4 20h3",
    };
    view! {
        <svg
            class="icon"
            viewBox="0 0 24 24"
            width="20"
            height="20"
            fill="none"
            stroke="currentColor"
            stroke-width="2"
            stroke-linecap="round"
            stroke-linejoin="round"
            aria-hidden="true"
        >
            <path d=path></path>
        </svg>
    }
}

/// The mark of the program.
#[component]
pub(crate) fn Logo() -> impl IntoView {
    view! { <img class="logo" src="/icons/icon.svg" alt="" width="56" height="56"/> }
}
