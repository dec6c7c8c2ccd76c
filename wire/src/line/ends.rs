//! How the two directions of a line end (L02, L03, L04, L07, L09, T05).

use super::{Direction, FinishReason};

/// One direction of a line.
///
/// ```text
///            end of input            queue empty, end passed on
///   Flowing --------------> Ended ------------------------------> Passed
///      |                      |
///      |   the sink broke     |
///      +----------> Dead <----+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Input is read and passed on.
    Flowing,
    /// The input ended; what is queued is still delivered (L02).
    Ended,
    /// The end of input was passed on as a half-close (L07).
    Passed,
    /// The sink broke: nothing can be delivered any more.
    Dead,
}

/// What the line does about an end of input that came while the onward side was not up (L09).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyEnd {
    /// Nothing is queued: the attempts are cancelled and the line is over at once.
    Cancel,
    /// Bytes are queued: they are delivered first, as long as the connect may take.
    Deliver,
}

/// Both directions of one line and why it ends.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    ways: [Way; 2],
    finish: Option<FinishReason>,
}

impl Default for Ends {
    fn default() -> Self {
        Self::new()
    }
}

impl Ends {
    /// A line whose directions both flow.
    pub const fn new() -> Self {
        Self { ways: [Way::Flowing; 2], finish: None }
    }

    fn way(&mut self, direction: Direction) -> &mut Way {
        &mut self.ways[direction as usize]
    }

    /// True while input of this direction is wanted.
    pub fn reads(&self, direction: Direction) -> bool {
        self.finish.is_none() && self.ways[direction as usize] == Way::Flowing
    }

    /// True once the input of this direction has ended by itself (L07).
    pub fn has_ended(&self, direction: Direction) -> bool {
        matches!(self.ways[direction as usize], Way::Ended | Way::Passed)
    }

    /// True while bytes of this direction can be delivered.
    pub fn delivers(&self, direction: Direction) -> bool {
        matches!(self.ways[direction as usize], Way::Flowing | Way::Ended)
    }

    /// True when the end of input is still to be passed on, behind the bytes before it (L02, L07).
    pub fn end_is_due(&self, direction: Direction, queued: usize) -> bool {
        queued == 0 && self.ways[direction as usize] == Way::Ended
    }

    /// True when the other direction's end was passed on already: with this one the line is over.
    pub fn is_last(&self, direction: Direction) -> bool {
        self.ways[direction.reverse() as usize] == Way::Passed
    }

    /// Input of this direction ended in order.
    pub fn input_ended(&mut self, direction: Direction) {
        let way = self.way(direction);
        if *way == Way::Flowing {
            *way = Way::Ended;
        }
    }

    /// What an end of the upstream input means while the onward side is not up (L09).
    pub fn early_end(&self, queued: usize) -> Option<EarlyEnd> {
        if self.ways[Direction::Upstream as usize] != Way::Ended {
            return None;
        }
        Some(if queued == 0 { EarlyEnd::Cancel } else { EarlyEnd::Deliver })
    }

    /// The end of input of this direction was passed on.
    pub fn passed(&mut self, direction: Direction) {
        let way = self.way(direction);
        if *way == Way::Ended {
            *way = Way::Passed;
        }
    }

    /// The sink of this direction takes no more: what is queued for it is lost, and its source is
    /// not read any more. What the other direction still has is delivered.
    pub fn sink_broke(&mut self, direction: Direction) {
        *self.way(direction) = Way::Dead;
    }

    /// The source of this direction broke (a reset): no more input, and nothing can go back to it
    /// (L03). What it sent before is still delivered (L02).
    pub fn source_broke(&mut self, direction: Direction) {
        self.input_ended(direction);
        self.sink_broke(direction.reverse());
    }

    /// Ends the line from the middle (L04): no more input, queued bytes are delivered first (T05).
    /// The first reason stays.
    pub fn finish(&mut self, reason: FinishReason) {
        self.finish.get_or_insert(reason);
    }

    /// Why the line was ended from the middle, if it was.
    pub const fn reason(&self) -> Option<FinishReason> {
        self.finish
    }

    /// True once Finish was seen or one side broke: what is left is delivery within `linger-ms`
    /// (T05).
    pub fn closing(&self) -> bool {
        self.finish.is_some()
            || (self.ways.contains(&Way::Dead) && !self.ways.contains(&Way::Flowing))
    }

    /// True when exactly one direction is over and the other goes on (L07).
    pub fn half_closed(&self) -> bool {
        self.ways.contains(&Way::Flowing) && self.ways.iter().any(|way| *way != Way::Flowing)
    }

    /// The reason, once nothing is left to be done. `queued` are the undelivered bytes upstream
    /// and downstream.
    pub fn over(&self, queued: [usize; 2]) -> Option<FinishReason> {
        if let Some(reason) = self.finish {
            let owed = |d: Direction| self.delivers(d) && queued[d as usize] > 0;
            return (!Direction::ALL.into_iter().any(owed)).then_some(reason);
        }
        let done = |way: &Way| matches!(way, Way::Passed | Way::Dead);
        self.ways.iter().all(done).then_some(FinishReason::PeerFinished)
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction::*, EarlyEnd, Ends, FinishReason};

    #[test]
    fn line_l07_an_end_of_input_is_passed_on_and_the_other_direction_goes_on() {
        let mut ends = Ends::new();
        ends.input_ended(Upstream);
        assert!(!ends.reads(Upstream));
        assert!(ends.reads(Downstream));
        assert!(ends.end_is_due(Upstream, 0));
        ends.passed(Upstream);
        assert!(ends.half_closed());
        assert_eq!(ends.over([0, 0]), None);
        ends.input_ended(Downstream);
        ends.passed(Downstream);
        assert_eq!(ends.over([0, 0]), Some(FinishReason::PeerFinished));
    }

    #[test]
    fn line_l02_the_end_waits_behind_the_bytes_before_it() {
        let mut ends = Ends::new();
        ends.input_ended(Upstream);
        assert!(!ends.end_is_due(Upstream, 7));
        assert!(ends.delivers(Upstream));
        assert!(ends.end_is_due(Upstream, 0));
    }

    #[test]
    fn line_l03_nothing_goes_back_to_a_side_that_is_gone() {
        let mut ends = Ends::new();
        ends.source_broke(Upstream);
        assert!(!ends.delivers(Downstream), "the client is gone");
        assert!(ends.delivers(Upstream), "what it sent before is delivered");
        assert!(ends.closing());
        assert_eq!(ends.over([5, 9]), None);
        assert!(ends.end_is_due(Upstream, 0));
        ends.passed(Upstream);
        assert_eq!(ends.over([0, 9]), Some(FinishReason::PeerFinished));
    }

    #[test]
    fn line_l04_finish_from_the_middle_stops_both_inputs_and_the_first_reason_stays() {
        let mut ends = Ends::new();
        ends.finish(FinishReason::Admin);
        ends.finish(FinishReason::Drain);
        assert!(!ends.reads(Upstream) && !ends.reads(Downstream));
        assert_eq!(ends.over([0, 1]), None, "T05: queued bytes are written first");
        assert_eq!(ends.over([0, 0]), Some(FinishReason::Admin));
    }

    #[test]
    fn line_l09_an_early_end_cancels_with_nothing_queued_and_delivers_otherwise() {
        let mut ends = Ends::new();
        assert_eq!(ends.early_end(0), None);
        ends.input_ended(Upstream);
        assert_eq!(ends.early_end(0), Some(EarlyEnd::Cancel));
        assert_eq!(ends.early_end(10), Some(EarlyEnd::Deliver));
    }

    #[test]
    fn a_server_that_reads_no_more_may_still_answer() {
        let mut ends = Ends::new();
        ends.sink_broke(Upstream);
        assert!(!ends.reads(Upstream));
        assert!(ends.reads(Downstream));
        assert_eq!(ends.over([3, 0]), None);
        ends.input_ended(Downstream);
        ends.passed(Downstream);
        assert_eq!(ends.over([3, 0]), Some(FinishReason::PeerFinished));
    }
}
