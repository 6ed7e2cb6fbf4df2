//! Drawings of an execution: threads as columns, with an event in each line, in an order in which
//! the events could have taken place. Of the accesses to plain memory, those that race have lines.

use core::fmt::Write;

use crate::clock::Clock;
use crate::event::{Event, EventId, Kind, Location};
use crate::graph::Graph;
use crate::plain::Access;

/// Draws an execution as text. A read names the write that it reads from; the last lines give the
/// coherence order of each location with several writes.
pub fn text(graph: &Graph) -> String {
    let order = in_time(graph);
    let line = |it: &Line| {
        let before = "|   ".repeat(it.thread());
        format!("{before}{} {}", it.name(), it.label(graph))
    };
    let lines: Vec<_> = order.iter().map(line).collect();
    let width = lines.iter().map(String::len).max().unwrap_or_default();
    let mut text = String::new();
    for (it, line) in order.iter().zip(&lines) {
        let _ = writeln!(text, "{line:<width$}  {}", it.place(graph));
    }
    for location in locations(graph) {
        if let writes @ [_, _, ..] = graph.coherence(location) {
            let writes: Vec<_> = writes.iter().map(EventId::to_string).collect();
            let _ = writeln!(text, "x{}: {}", location.number(), writes.join(" → "));
        }
    }
    text
}

/// A line of a drawing.
enum Line {
    Event(EventId),
    Plain(Access),
}

impl Line {
    fn thread(&self) -> usize {
        match self {
            Line::Event(id) => id.thread as usize,
            Line::Plain(access) => access.thread,
        }
    }

    fn name(&self) -> String {
        match self {
            Line::Event(id) => id.to_string(),
            Line::Plain(access) => format!("T{}", access.thread),
        }
    }

    fn label(&self, graph: &Graph) -> String {
        match self {
            Line::Event(id) => label(graph, graph.event(*id)),
            Line::Plain(access) if access.is_write => "writes plain memory: RACE".to_owned(),
            Line::Plain(_) => "reads plain memory: RACE".to_owned(),
        }
    }

    fn place(&self, graph: &Graph) -> String {
        let place = match self {
            Line::Event(id) => graph.event(*id).place,
            Line::Plain(access) => access.place,
        };
        format!("{}:{}", place.file(), place.line())
    }

    /// Whether it is an event of a thread that comes after an access of that thread.
    fn follows(&self, access: &Access) -> bool {
        let Line::Event(id) = self else { return false };
        id.thread as usize == access.thread && id.index as usize >= access.events
    }
}

/// Returns the events in an order that extends `po ∪ rf`: of the events that can be next, the one
/// that the search added first. The accesses that race come as late as they can, so that they are
/// near each other.
fn in_time(graph: &Graph) -> Vec<Line> {
    let mut time = Vec::new();
    let mut left = graph.order().to_vec();
    let mut past = Clock::default();
    while !left.is_empty() {
        let is_next = |id: &EventId| past.includes(&graph.event(*id).causes);
        let next = left.remove(left.iter().position(is_next).unwrap_or_default());
        past.add(next);
        time.push(Line::Event(next));
    }
    for access in graph.raced.iter().flatten() {
        let at = time.iter().position(|line| line.follows(access));
        time.insert(at.unwrap_or(time.len()), Line::Plain(*access));
    }
    time
}

fn locations(graph: &Graph) -> impl Iterator<Item = Location> {
    (0..graph.locations() as u32).map(Location)
}

fn label(graph: &Graph, event: &Event) -> String {
    let (number, value) = (event.location.number(), event.value);
    let ordering = event.ordering;
    let half = if event.exclusive { ", rmw" } else { "" };
    match event.kind {
        Kind::Read => {
            let source = event.reads_from;
            let wait = if event.blocked { ", waits" } else { "" };
            format!("reads x{number} = {value:#x} of {source}, {ordering:?}{half}{wait}")
        }
        Kind::Write => format!("writes x{number} = {value:#x}, {ordering:?}{half}"),
        Kind::Fence => format!("fence, {ordering:?}"),
        Kind::Choice if event.is_fault() => format!("fault {value}"),
        Kind::Choice => format!("chooses {value}"),
        Kind::Spawn => format!("starts T{value}"),
        Kind::Join => format!(
            "joins T{value} ({} events)",
            graph.events(value as usize).len()
        ),
    }
}

const WIDTH: usize = 330;
const HEIGHT: usize = 26;
const TOP: usize = 40;

/// Draws an execution as an SVG image. Solid arrows lead from a write to its reads (`rf`), dashed
/// ones from a write to the next one of its location (`co`).
pub fn svg(graph: &Graph) -> String {
    let order = in_time(graph);
    let of = |id: EventId| {
        let row = order
            .iter()
            .position(|it| matches!(it, Line::Event(it) if *it == id));
        corner(id.thread as usize, row.unwrap_or_default())
    };
    let height = TOP + (order.len() + 1) * HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"12\">\n<defs><marker id=\"tip\" \
         markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path \
         d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n",
        graph.threads() * WIDTH + 20,
    );
    for thread in 0..graph.threads() {
        let x = 20 + thread * WIDTH;
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"24\" font-weight=\"bold\">T{thread}</text>"
        );
    }
    for (row, line) in order.iter().enumerate() {
        let (x, y) = corner(line.thread(), row);
        let (place, label) = (escaped(&line.place(graph)), escaped(&line.label(graph)));
        let title = format!("<title>{place}</title>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{y}\">{label}{title}</text>",
            x + 12
        );
        let Line::Event(id) = line else { continue };
        let event = graph.event(*id);
        if event.kind == Kind::Read && !event.reads_from.is_initial() {
            arrow(&mut svg, "green", "", of(event.reads_from), (x, y));
        }
    }
    for location in locations(graph) {
        for pair in graph.coherence(location).windows(2) {
            let [from, to] = [pair[0], pair[1]].map(of);
            arrow(
                &mut svg,
                "darkorange",
                " stroke-dasharray=\"5,4\"",
                from,
                to,
            );
        }
    }
    svg + "</svg>\n"
}

fn corner(thread: usize, row: usize) -> (usize, usize) {
    (20 + thread * WIDTH, TOP + (row + 1) * HEIGHT)
}

/// Draws an arrow between the left ends of two labels, bent to the left.
fn arrow(svg: &mut String, color: &str, dashes: &str, from: (usize, usize), to: (usize, usize)) {
    let [(x1, y1), (x2, y2)] = [from, to].map(|(x, y)| (x + 6, y - 4));
    let (x, y) = ((x1 + x2) / 2 - 14, (y1 + y2) / 2);
    let _ = writeln!(
        svg,
        "<path d=\"M{x1},{y1} Q{x},{y} {x2},{y2}\" fill=\"none\" stroke=\"{color}\"{dashes} \
         marker-end=\"url(#tip)\"/>"
    );
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}
