//! Water marks of a queue (T04): where the source is paused, where it is resumed.

/// The two marks of a queue, in bytes: `low` is never above `high`, and `high` is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterMarks {
    high: usize,
    low: usize,
}

impl WaterMarks {
    /// Marks from two byte counts. A `high` of 0 becomes 1, and a `low` above `high` becomes
    /// `high`; the configuration refuses both before.
    pub const fn new(high: usize, low: usize) -> Self {
        let high = if high == 0 { 1 } else { high };
        Self { high, low: if low > high { high } else { low } }
    }

    /// The mark at which the source is paused.
    pub const fn high(self) -> usize {
        self.high
    }

    /// The mark under which it is resumed.
    pub const fn low(self) -> usize {
        self.low
    }
}

impl Default for WaterMarks {
    /// 512 KiB and 256 KiB (T04).
    fn default() -> Self {
        Self::new(512 * 1024, 256 * 1024)
    }
}

/// What a change of the level means for the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The level reached the high-water mark: pause the source.
    Pause,
    /// The level fell under the low-water mark: resume it.
    Resume,
}

/// Says when a queue of this level pauses its source. It holds no bytes itself.
///
/// ```text
///            level >= high
///   flowing ---------------> stopped
///           <---------------
///            level < low, or empty
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Water {
    marks: WaterMarks,
    stopped: bool,
    until_empty: bool,
}

impl Water {
    /// An empty queue with these marks.
    pub const fn new(marks: WaterMarks) -> Self {
        Self { marks, stopped: false, until_empty: false }
    }

    /// Tells the level; gives the edge that was crossed, if any.
    pub fn level(&mut self, bytes: usize) -> Option<Edge> {
        if !self.stopped && bytes >= self.marks.high {
            self.stopped = true;
            return Some(Edge::Pause);
        }
        let low = bytes < self.marks.low && !self.until_empty;
        if self.stopped && (low || bytes == 0) {
            self.stopped = false;
            self.until_empty = false;
            return Some(Edge::Resume);
        }
        None
    }

    /// Stops the source until the queue is empty, whatever the marks say (C06, C18).
    pub const fn stop_until_empty(&mut self) {
        self.stopped = true;
        self.until_empty = true;
    }

    /// True while the source is stopped.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How many bytes may still come in before the source is paused; 0 while it is.
    pub fn room(&self, bytes: usize) -> usize {
        if self.stopped { 0 } else { self.marks.high.saturating_sub(bytes) }
    }

    /// Uses other marks from the next change of the level on.
    pub fn set_marks(&mut self, marks: WaterMarks) {
        self.marks = marks;
    }
}

#[cfg(test)]
mod tests {
    use super::{Edge, Water, WaterMarks};

    #[test]
    fn tcp_t04_pauses_at_the_high_mark_and_resumes_under_the_low_mark_once_each() {
        let mut water = Water::new(WaterMarks::new(100, 50));
        assert_eq!(water.level(99), None);
        assert_eq!(water.room(99), 1);
        assert_eq!(water.level(100), Some(Edge::Pause));
        assert_eq!(water.level(130), None);
        assert_eq!(water.room(20), 0);
        assert_eq!(water.level(50), None);
        assert_eq!(water.level(49), Some(Edge::Resume));
        assert_eq!(water.level(0), None);
    }

    #[test]
    fn tcp_t04_a_low_mark_of_0_resumes_when_the_queue_is_empty() {
        let mut water = Water::new(WaterMarks::new(1, 0));
        assert_eq!(water.level(1), Some(Edge::Pause));
        assert_eq!(water.level(0), Some(Edge::Resume));
    }

    #[test]
    fn fisher_c18_a_queue_that_waited_for_a_choice_resumes_its_source_when_it_is_empty() {
        let mut water = Water::new(WaterMarks::new(100, 50));
        water.stop_until_empty();
        assert_eq!((water.level(1), water.room(1)), (None, 0));
        assert_eq!(water.level(0), Some(Edge::Resume));
        assert_eq!(water.level(100), Some(Edge::Pause));
        assert_eq!(water.level(49), Some(Edge::Resume), "the marks count again");
    }

    #[test]
    fn marks_that_make_no_sense_are_put_in_order() {
        let marks = WaterMarks::new(0, 9);
        assert_eq!((marks.high(), marks.low()), (1, 1));
    }
}
