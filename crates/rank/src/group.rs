//! Groups: calls between `ncclGroupStart` and the outermost `ncclGroupEnd` are held back and go together.

use fakegpu_proto::Fault;

/// The calls one thread has grouped, and how deep it stands in nested groups.
#[derive(Debug)]
pub struct Group<C> {
    depth: u32,
    calls: Vec<C>,
    refused: Option<Fault>,
}

/// What the end of a group comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum GroupEnd<C> {
    /// An inner group ended; the outermost one goes on.
    Nested,
    /// The outermost group ended: these calls go, in call order.
    Goes(Vec<C>),
}

impl<C> Default for Group<C> {
    fn default() -> Self {
        Self { depth: 0, calls: Vec::new(), refused: None }
    }
}

impl<C> Group<C> {
    /// Enters a group.
    pub fn start(&mut self) {
        self.depth += 1;
    }

    /// Whether calls are held back.
    pub fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// The calls held back so far.
    pub fn held(&self) -> impl Iterator<Item = &C> {
        self.calls.iter()
    }

    /// How many calls are held back.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Holds a call back; outside a group gives it back to run at once.
    pub fn hold(&mut self, call: C) -> Option<C> {
        if self.is_open() {
            self.calls.push(call);
            None
        } else {
            Some(call)
        }
    }

    /// Notes that a call of this group was refused for its own arguments: the whole group will fail with it.
    pub fn refuse(&mut self, fault: &Fault) {
        if self.is_open() && self.refused.is_none() {
            self.refused = Some(fault.clone());
        }
    }

    /// Leaves a group. Leaving none, or one in which a call was refused, is an error; the calls are dropped.
    pub fn end(&mut self) -> Result<GroupEnd<C>, Fault> {
        self.depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| Fault::usage("ncclGroupEnd was called without ncclGroupStart"))?;
        if self.is_open() {
            return Ok(GroupEnd::Nested);
        }
        let calls = std::mem::take(&mut self.calls);
        match self.refused.take() {
            Some(fault) => Err(Fault::new(fault.code, format!("the group did not start: {}", fault.detail))),
            None => Ok(GroupEnd::Goes(calls)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_end_lets_calls_go_in_order() {
        let mut group = Group::default();
        group.start();
        assert_eq!(group.hold(1), None);
        group.start();
        assert_eq!(group.hold(2), None);
        assert_eq!(group.end(), Ok(GroupEnd::Nested));
        assert_eq!(group.hold(3), None);
        assert_eq!(group.end(), Ok(GroupEnd::Goes(vec![1, 2, 3])));
        assert_eq!(group.hold(4), Some(4));
    }

    #[test]
    fn an_end_without_a_start_is_invalid_usage() {
        let mut group = Group::<()>::default();
        assert_eq!(group.end().unwrap_err().code, fakegpu_proto::Code::InvalidUsage);
        group.start();
        assert!(group.end().is_ok());
    }

    #[test]
    fn a_refused_call_fails_its_group_and_no_later_one() {
        let mut group = Group::default();
        group.start();
        group.hold(1);
        group.refuse(&Fault::argument("bad root"));
        assert!(group.end().unwrap_err().detail.contains("bad root"));
        group.start();
        group.hold(2);
        assert_eq!(group.end(), Ok(GroupEnd::Goes(vec![2])));
    }
}
