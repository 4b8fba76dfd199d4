//! Evaluating.
//!
//! What always holds: whatever goes wrong, a panic of the interpreter included, is the failure of
//! this one value; what is told of it never quotes a value.
//!
//! What it does not do: decide where it runs. It takes up to a second for the largest things that
//! the limits allow; callers take it off the async workers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::{ExecutionError, Value};

use super::program::Program;
use super::scope::Scope;
use crate::expression::member::WhyMissing;

impl Program {
    /// The value as the text of an identity: a text, an integer or a boolean.
    pub(in crate::expression) fn text(&self, scope: &Scope<'_>) -> Result<String, WhyMissing> {
        match self.evaluate(scope)? {
            Value::String(text) => Ok(text.as_str().to_owned()),
            Value::Int(integer) => Ok(integer.to_string()),
            Value::UInt(integer) => Ok(integer.to_string()),
            Value::Bool(boolean) => Ok(boolean.to_string()),
            _ => Err(WhyMissing::NotScalar),
        }
    }

    /// Does it hold? Anything but a boolean is a failure.
    pub(in crate::expression) fn holds(&self, scope: &Scope<'_>) -> Result<bool, WhyMissing> {
        match self.evaluate(scope)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err(WhyMissing::Failed),
        }
    }

    /// Whatever it comes to.
    pub(in crate::expression) fn value(&self, scope: &Scope<'_>) -> Result<Value, WhyMissing> {
        self.evaluate(scope)
    }

    fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, WhyMissing> {
        if !self.shape().affords(scope.extent()) {
            return Err(WhyMissing::TooMuch);
        }
        // Nothing that is shared is written to, so nothing can be left half-written.
        let run = AssertUnwindSafe(|| Value::resolve(self.expression(), scope.context()));
        match catch_unwind(run) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_))) => {
                Err(WhyMissing::Absent)
            }
            Ok(Err(_)) | Err(_) => Err(WhyMissing::Failed),
        }
    }
}
