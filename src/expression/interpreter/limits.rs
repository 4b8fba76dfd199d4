//! How large an expression may be, and how much work it may make.
//!
//! What always holds: the interpreter recurses no deeper than [`DEEPEST`] nodes, which a thread's
//! usual stack holds many times; it loops only over what it was given, and the product of all loops
//! is known before the first one runs.
//!
//! What it does not do: measure time. The interpreter cannot be interrupted, so the work is bounded
//! before it starts.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, EntryExpr, Expr, operators};

/// Longest expression, in bytes.
pub(super) const LONGEST: usize = 2_048;

/// Nodes within nodes, at most, loops unfolded as the interpreter does it.
pub(super) const DEEPEST: usize = 24;

/// Loops (`all`, `exists`, `exists_one`, `map`, `filter`) in one expression, at most.
const MOST_LOOPS: usize = 4;

/// Loops within loops, at most.
const MOST_NESTED_LOOPS: u32 = 2;

/// `+` in one expression, at most: within chained loops each may double what the one before made.
const MOST_ADDITIONS: usize = 16;

/// Steps of the interpreter in one evaluation, at most: a loop of 20 nodes around a list of 30 000
/// takes 25 ms where this was measured, so this is a few hundred milliseconds.
const MOST_STEPS: usize = 2_000_000;

/// Contents above this many bytes are read off the async workers, whatever is done with them.
pub(in crate::expression) const SLOW_ABOVE: usize = 64 << 10;

/// The same for what loops over them: up to 2 000 turns, 2 ms.
const LOOPS_SLOW_ABOVE: usize = 4 << 10;

/// Bytes of text that are gone through in the time of one step.
const BYTES_PER_STEP: usize = 256;

/// Operators that never look into a text.
const TEXTLESS: [&str; 7] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::CONDITIONAL,
    operators::INDEX,
    operators::NEGATE,
    operators::NOT_STRICTLY_FALSE,
];

/// What evaluating an expression may cost, but for the values it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    nodes: usize,
    loops: usize,
    nested: u32,
    additions: usize,
    /// Calls that may go through a text.
    readers: usize,
}

/// How much an expression is given to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Scalars, lists and maps.
    pub(super) values: usize,
    /// Bytes of the longest text.
    pub(super) longest: usize,
}

impl Extent {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            values: self.values.saturating_add(other.values),
            longest: self.longest.max(other.longest),
        }
    }
}

impl Shape {
    /// The shape of an expression; in words, why it is too large.
    pub(super) fn of(expression: &IdedExpr) -> Result<Self, String> {
        let mut shape = Self::default();
        if !shape.add(expression, DEEPEST, 0) {
            return Err(format!("is nested deeper than {DEEPEST} levels"));
        }
        if shape.loops > MOST_LOOPS || shape.nested > MOST_NESTED_LOOPS {
            return Err(format!(
                "has more than {MOST_LOOPS} loops, or more than {MOST_NESTED_LOOPS} within each other"
            ));
        }
        if shape.additions > MOST_ADDITIONS {
            return Err(format!("has more than {MOST_ADDITIONS} additions"));
        }
        Ok(shape)
    }

    /// Contents above this many bytes keep others waiting.
    pub(super) fn slow_above(self) -> usize {
        match self.nested {
            0 => SLOW_ABOVE,
            1 => LOOPS_SLOW_ABOVE,
            // Even a short list may make all the turns that are allowed.
            _ => 0,
        }
    }

    /// May it be evaluated over that much?
    pub(super) fn affords(self, extent: Extent) -> bool {
        if self.loops == 0 {
            return true;
        }
        // What one loop made, the next may go through.
        let chained = u32::try_from(self.loops.saturating_sub(1)).unwrap_or(u32::MAX);
        let growth = self.additions.saturating_add(1).saturating_pow(chained);
        let turns = extent
            .values
            .saturating_add(self.nodes)
            .saturating_mul(growth)
            .saturating_pow(self.nested.max(1));
        // Every call of every turn may go through the longest text there is.
        let texts = extent.longest.saturating_mul(growth) / BYTES_PER_STEP;
        let steps_of_a_turn = self
            .nodes
            .saturating_add(self.readers.saturating_mul(texts));
        turns.saturating_mul(steps_of_a_turn) <= MOST_STEPS
    }

    /// Counts a node and what is below it; `false` if there is no depth left for that.
    fn add(&mut self, node: &IdedExpr, left: usize, loops: u32) -> bool {
        let Some(left) = left.checked_sub(1) else {
            return false;
        };
        self.nodes = self.nodes.saturating_add(1);
        match &node.expr {
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => true,
            Expr::Call(call) => {
                self.count_call(call);
                let target = call.target.as_deref();
                target
                    .into_iter()
                    .chain(&call.args)
                    .all(|part| self.add(part, left, loops))
            }
            Expr::Select(select) => self.add(&select.operand, left, loops),
            Expr::List(list) => list.elements.iter().all(|part| self.add(part, left, loops)),
            Expr::Map(map) => self.add_entries(map.entries.iter().map(|e| &e.expr), left, loops),
            Expr::Struct(made) => {
                self.add_entries(made.entries.iter().map(|e| &e.expr), left, loops)
            }
            Expr::Comprehension(each) => {
                let inner = loops.saturating_add(1);
                self.loops = self.loops.saturating_add(1);
                self.nested = self.nested.max(inner);
                self.add(&each.iter_range, left, loops)
                    && self.add(&each.accu_init, left, loops)
                    && self.add(&each.result, left, loops)
                    && self.add(&each.loop_cond, left, inner)
                    && self.add(&each.loop_step, left, inner)
            }
        }
    }

    fn count_call(&mut self, call: &CallExpr) {
        let is_result =
            |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name.starts_with('@'));
        // What a loop collects grows by what is collected, and by no more.
        if call.args.first().is_some_and(is_result) {
            return;
        }
        if !TEXTLESS.contains(&call.func_name.as_str()) {
            self.readers = self.readers.saturating_add(1);
        }
        if call.func_name == operators::ADD {
            self.additions = self.additions.saturating_add(1);
        }
    }

    fn add_entries<'e>(
        &mut self,
        mut entries: impl Iterator<Item = &'e EntryExpr>,
        left: usize,
        loops: u32,
    ) -> bool {
        entries.all(|entry| match entry {
            EntryExpr::StructField(field) => self.add(&field.value, left, loops),
            EntryExpr::MapEntry(entry) => {
                self.add(&entry.key, left, loops) && self.add(&entry.value, left, loops)
            }
        })
    }
}
