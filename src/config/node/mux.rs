//! Settings of the two ends of a mux.

use lineway_actors::settings::{
    MuxClientSettings, MuxMode, MuxServerSettings, MuxSettings, NodeSettings,
};
use lineway_wire::units::{ByteCount, Millis};

use super::Table;
use crate::config::reader::Value;

const MODE: &str = "mode";
const DURATION: &str = "connection-duration";
const DURATION_MS: &str = "connection-duration-ms";
const CAPACITY: &str = "connection-capacity";
const PER_WORKER: &str = "per-worker-connections-count";
const CHILD_LIMIT: &str = "child-buffer-limit";

/// The word for a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Timer,
    Counter,
    Fixed,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Timer, Self::Counter, Self::Fixed];

    const fn word(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Counter => "counter",
            Self::Fixed => "fixed-connections-count",
        }
    }
}

/// Settings of a `MuxClient`.
pub(super) fn client(table: &mut Table<'_>) -> Option<NodeSettings> {
    let mode = mode(table);
    let mux = both(table);
    let parent_retry = table.millis("parent-retry-ms", 3000, 0);
    Some(NodeSettings::MuxClient(MuxClientSettings { mode: mode?, mux, parent_retry }))
}

/// Settings of a `MuxServer`.
pub(super) fn server(table: &mut Table<'_>) -> NodeSettings {
    let mux = both(table);
    let children = table.number("max-children", 1..=i64::from(MuxServerSettings::MOST_CHILDREN));
    let max_children = children.and_then(|children| u32::try_from(children).ok());
    let max_children = max_children.unwrap_or(MuxServerSettings::default().max_children);
    NodeSettings::MuxServer(MuxServerSettings { mux, max_children })
}

/// `mode` with the setting that belongs to it. The settings of the other modes are errors, since
/// whoever wrote them expects something of them.
fn mode(table: &mut Table<'_>) -> Option<MuxMode> {
    let written = table.get(MODE);
    let duration = duration(table);
    let settings = [
        (Mode::Timer, duration.clone()),
        (Mode::Counter, table.get(CAPACITY)),
        (Mode::Fixed, table.get(PER_WORKER)),
    ];
    let Some(written) = written else {
        note_missing(table, &settings);
        for (mode, value) in &settings {
            let _ = value.as_ref().and_then(|value| read(*mode, value));
        }
        return None;
    };
    let chosen = written.choice(&Mode::ALL.map(|mode| (mode.word(), mode)));
    let mut read_mode = None;
    for (mode, value) in &settings {
        match (value, chosen) {
            (Some(value), Some(chosen)) if *mode != chosen => {
                note_of_another_mode(value, *mode, chosen, &written);
            }
            (Some(value), _) => read_mode = read(*mode, value),
            (None, Some(chosen)) if *mode == chosen => note_missing_setting(table, *mode),
            (None, _) => {}
        }
    }
    chosen.and(read_mode)
}

/// `connection-duration` in one of its two spellings.
fn duration<'a>(table: &mut Table<'a>) -> Option<Value<'a>> {
    let [short, long] = [DURATION, DURATION_MS].map(|name| table.get(name));
    if let (Some(short), Some(long)) = (&short, &long) {
        let mut problem =
            long.problem(format!("found {}, not together with `{DURATION}`", long.found()));
        problem.help = Some("both are the same: keep one of the two".to_owned());
        problem.also = Some((short.span.clone(), "the other"));
        long.note(problem);
    }
    short.or(long)
}

/// The mode, with the value of its setting.
fn read(mode: Mode, value: &Value<'_>) -> Option<MuxMode> {
    let number = |most: u32| {
        let number = value.integer(1..=i64::from(most), &format!("number (1 to {most})"));
        number.and_then(|number| u32::try_from(number).ok())
    };
    Some(match mode {
        Mode::Timer => MuxMode::Timer {
            connection_duration: value.millis(i64::from(MuxMode::LEAST_DURATION_MS))?,
        },
        Mode::Counter => MuxMode::Counter { connection_capacity: number(MuxMode::MOST_CAPACITY)? },
        Mode::Fixed => {
            MuxMode::FixedConnectionsCount { per_worker: number(MuxMode::MOST_PER_WORKER)? }
        }
    })
}

/// `mode` is not there. When the setting of one mode is, that mode was meant.
fn note_missing(table: &Table<'_>, settings: &[(Mode, Option<Value<'_>>)]) {
    let words = Mode::ALL.map(|mode| format!("{:?}", mode.word())).join(", ");
    let mut meant = settings.iter().filter(|(_, value)| value.is_some());
    let help = match (meant.next(), meant.next()) {
        (Some((mode, _)), None) => {
            let setting = setting_of(table, *mode);
            format!(
                "it has no default: write {MODE} = {:?}, to which `{setting}` belongs",
                mode.word()
            )
        }
        _ => "it has no default: timer opens another connection after a time, counter after a \
              number of lines, fixed-connections-count keeps to so many"
            .to_owned(),
    };
    table.missing(MODE, &words, Some(help));
}

/// The setting of the mode, as it is spelt in the table.
fn setting_of(table: &Table<'_>, mode: Mode) -> &'static str {
    match mode {
        Mode::Timer if table.has(DURATION_MS) => DURATION_MS,
        Mode::Timer => DURATION,
        Mode::Counter => CAPACITY,
        Mode::Fixed => PER_WORKER,
    }
}

fn note_missing_setting(table: &Table<'_>, mode: Mode) {
    let expected = match mode {
        Mode::Timer => format!("milliseconds, number ({} or more)", MuxMode::LEAST_DURATION_MS),
        Mode::Counter => "number (1 or more)".to_owned(),
        Mode::Fixed => format!("number (1 to {})", MuxMode::MOST_PER_WORKER),
    };
    let help = format!("{MODE} {:?} needs it", mode.word());
    table.missing(setting_of(table, mode), &expected, Some(help));
}

fn note_of_another_mode(value: &Value<'_>, mode: Mode, chosen: Mode, written: &Value<'_>) {
    let (mode, chosen) = (mode.word(), chosen.word());
    let mut problem =
        value.problem(format!("found {}, but {MODE} {chosen:?} does not have it", value.found()));
    let owner = format!("it belongs to {MODE} {mode:?}");
    problem.label = Some(owner.clone());
    problem.help = Some(owner);
    problem.also = Some((written.span.clone(), "the mode"));
    value.note(problem);
}

/// What both ends have.
fn both(table: &mut Table<'_>) -> MuxSettings {
    let default = MuxSettings::default();
    let limit = table.bytes(CHILD_LIMIT).map(|(bytes, _)| bytes);
    let limit_is_right = limit.is_some() || !table.has(CHILD_LIMIT);
    let child_buffer_limit = limit.unwrap_or(default.child_buffer_limit);
    let threshold = table.bytes("child-buffer-resume-threshold");
    if let Some((bytes, value)) = &threshold
        && limit_is_right
        && *bytes > child_buffer_limit
    {
        table.above(value, CHILD_LIMIT, child_buffer_limit);
    }
    let child_buffer_resume_threshold = threshold.map_or_else(
        || MuxSettings::default_resume_threshold(child_buffer_limit),
        |(bytes, _)| bytes,
    );
    let millis = |table: &mut Table<'_>, name, default: Millis| {
        table.get(name).and_then(|value| value.millis(1)).unwrap_or(default)
    };
    let child_stall_timeout = millis(table, "child-stall-timeout-ms", default.child_stall_timeout);
    let parent_buffer_limit = match table.get("parent-buffer-limit") {
        Some(value) => value.bytes(0).filter(|bytes| *bytes != ByteCount::new(0)),
        None => default.parent_buffer_limit,
    };
    let half_close = table.boolean("half-close", default.half_close);
    let half_close_timeout = millis(table, "half-close-timeout-ms", default.half_close_timeout);
    MuxSettings {
        child_buffer_limit,
        child_buffer_resume_threshold,
        child_stall_timeout,
        parent_buffer_limit,
        half_close,
        half_close_timeout,
    }
}

#[cfg(test)]
mod tests;
