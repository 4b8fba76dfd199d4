//! What an expression names, and whether it may.
//!
//! What always holds: an expression that passed names only roots that its place has, members that
//! those roots have, and functions of the list below, called as they can be called; every reference
//! to a root is listed, so that only what is named is read.
//!
//! What it does not do: infer types. A mistyped field shows when it is evaluated, as a value that
//! cannot be had or a condition that is not known.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::common::ast::{SelectExpr, SourceInfo};
use http::HeaderName;

use super::program::ExpressionError;

/// What an expression may start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// Method and path as sent.
    Request,
    /// Parameters of the path template.
    Path,
    /// Parameters of the query.
    Query,
    /// Header fields of the request.
    Headers,
    /// The JSON body of the request.
    Body,
    /// Fields of a form.
    Form,
    /// The fencing token.
    Token,
    /// The operation.
    Operation,
    /// The upstream's answer.
    Response,
}

/// One use of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The root.
    pub root: Root,
    /// The member of it, where the expression says which; else it may be any.
    pub name: Option<String>,
    /// Of `response.headers`: the field, where the expression says which.
    pub field: Option<String>,
    /// Where it stands, in bytes from the start of the text that the expression is part of.
    pub offset: usize,
}

/// The functions: the standard ones that need no clock and no pattern.
const FUNCTIONS: [(&str, Call); 9] = [
    ("size", Call::Either),
    ("contains", Call::Member),
    ("startsWith", Call::Member),
    ("endsWith", Call::Member),
    ("string", Call::Global),
    ("int", Call::Global),
    ("uint", Call::Global),
    ("double", Call::Global),
    ("bool", Call::Global),
];

const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];

const OPERATORS: [&str; 19] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::NOT_STRICTLY_FALSE,
    operators::IN,
];

const HEADERS: &str = "headers";

/// `f(x)` or `x.f(..)`, with one argument besides what it is called on.
#[derive(Clone, Copy)]
enum Call {
    Global,
    Member,
    Either,
}

impl Root {
    /// What a request brings.
    pub const OF_REQUEST: &[Self] = &[
        Self::Request,
        Self::Path,
        Self::Query,
        Self::Headers,
        Self::Body,
        Self::Form,
        Self::Token,
        Self::Operation,
    ];
    /// What an answer brings.
    pub const OF_ANSWER: &[Self] = &[Self::Response];
    /// What a question about a stored request brings with its answer.
    pub const OF_FOUND: &[Self] = &Self::ALL;
    /// What a request brings that is no effect: it has neither a token nor an operation of its own.
    pub const OF_CALLBACK: &[Self] = &[
        Self::Request,
        Self::Path,
        Self::Query,
        Self::Headers,
        Self::Body,
        Self::Form,
    ];
    /// The same, once the operation is known that it is about.
    pub const OF_CALLBACK_ABOUT: &[Self] = &[
        Self::Request,
        Self::Path,
        Self::Query,
        Self::Headers,
        Self::Body,
        Self::Form,
        Self::Operation,
    ];

    const ALL: [Self; 9] = [
        Self::Request,
        Self::Path,
        Self::Query,
        Self::Headers,
        Self::Body,
        Self::Form,
        Self::Token,
        Self::Operation,
        Self::Response,
    ];

    /// As expressions spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Path => "path",
            Self::Query => "query",
            Self::Headers => "headers",
            Self::Body => "body",
            Self::Form => "form",
            Self::Token => "token",
            Self::Operation => "operation",
            Self::Response => "response",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|root| root.name() == name)
    }

    /// The members, where they are known beforehand.
    fn members(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Request => Some(&["method", "path"]),
            Self::Token => Some(&["generation"]),
            Self::Operation => Some(&["id", "key", "reference", "answers"]),
            Self::Response => Some(&["status", "headers", "body"]),
            Self::Path | Self::Query | Self::Headers | Self::Body | Self::Form => None,
        }
    }

    /// Are its members texts, which have no members of their own?
    fn holds_texts(self) -> bool {
        !matches!(self, Self::Body | Self::Response)
    }
}

/// Looks through an expression whose depth is known to be bounded.
pub(super) fn references(
    expression: &IdedExpr,
    roots: &[Root],
    places: &SourceInfo,
) -> Result<Vec<Reference>, ExpressionError> {
    let mut walk = Walk {
        roots,
        places,
        bound: Vec::new(),
        found: Vec::new(),
    };
    if let Expr::Ident(name) = &expression.expr
        && let Some(root) = Root::named(name)
    {
        let message = format!("`{}` is not a value; name a member of it", root.name());
        return Err(walk.wrong(expression, message));
    }
    walk.expression(expression)?;
    Ok(walk.found)
}

struct Walk<'e> {
    roots: &'e [Root],
    places: &'e SourceInfo,
    /// Variables of the loops around.
    bound: Vec<&'e str>,
    found: Vec<Reference>,
}

type Checked = Result<(), ExpressionError>;

impl<'e> Walk<'e> {
    fn expression(&mut self, node: &'e IdedExpr) -> Checked {
        match &node.expr {
            Expr::Unspecified => Err(self.wrong(node, "is not an expression")),
            Expr::Literal(LiteralValue::Bytes(_)) => {
                Err(self.wrong(node, "bytes have no use here"))
            }
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(node, name),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(node, call),
            Expr::Comprehension(each) => self.each(node, each),
            Expr::List(list) => list
                .elements
                .iter()
                .try_for_each(|part| self.expression(part)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key)?;
                    self.expression(&entry.value)
                }
                EntryExpr::StructField(_) => Err(self.wrong(node, "is not a map")),
            }),
            Expr::Struct(made) => {
                let message = format!("`{}` is not a type that there is here", made.type_name);
                Err(self.wrong(node, message))
            }
        }
    }

    fn variable(&mut self, node: &'e IdedExpr, name: &'e str) -> Checked {
        // The interpreter's own variables cannot be written.
        if name.starts_with('@') || self.bound.contains(&name) {
            return Ok(());
        }
        let root = self.root(node, name)?;
        if root.members().is_some() {
            let message = format!("`{name}` is not a value; name a member of it");
            return Err(self.wrong(node, message));
        }
        self.found.push(Reference {
            root,
            name: None,
            field: None,
            offset: self.offset(node),
        });
        Ok(())
    }

    fn root(&self, node: &IdedExpr, name: &str) -> Result<Root, ExpressionError> {
        Root::named(name)
            .filter(|root| self.roots.contains(root))
            .ok_or_else(|| {
                let known: Vec<&str> = self.roots.iter().map(|root| root.name()).collect();
                let message = format!("`{name}` is unknown here; known are {}", known.join(", "));
                self.wrong(node, message)
            })
    }

    fn select(&mut self, node: &'e IdedExpr, select: &'e SelectExpr) -> Checked {
        if let Some(root) = self.root_of(&select.operand)? {
            if select.test && root.members().is_some() {
                let message = format!("`{}.{}` is always there", root.name(), select.field);
                return Err(self.wrong(node, message));
            }
            return self.member(&select.operand, root, &select.field);
        }
        if self.field_of_answer(&select.operand, &select.field)? {
            return Ok(());
        }
        self.of_text(&select.operand)?;
        self.expression(&select.operand)
    }

    /// Notes `response.headers.x`; `false` if this is not that.
    fn field_of_answer(
        &mut self,
        operand: &'e IdedExpr,
        name: &str,
    ) -> Result<bool, ExpressionError> {
        let Expr::Select(select) = &operand.expr else {
            return Ok(false);
        };
        if select.test
            || select.field != HEADERS
            || self.root_of(&select.operand)? != Some(Root::Response)
        {
            return Ok(false);
        }
        if HeaderName::try_from(name).is_err() {
            return Err(self.wrong(operand, format!("`{name}` is not the name of a header")));
        }
        self.found.push(Reference {
            root: Root::Response,
            name: Some(HEADERS.to_owned()),
            field: Some(name.to_owned()),
            offset: self.offset(operand),
        });
        Ok(true)
    }

    /// The root that this node is, if it is one.
    fn root_of(&self, node: &'e IdedExpr) -> Result<Option<Root>, ExpressionError> {
        match &node.expr {
            Expr::Ident(name) if !name.starts_with('@') && !self.bound.contains(&name.as_str()) => {
                self.root(node, name).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn member(&mut self, node: &IdedExpr, root: Root, name: &str) -> Checked {
        if let Some(members) = root.members()
            && !members.contains(&name)
        {
            let message = format!("`{}` has only {}", root.name(), members.join(", "));
            return Err(self.wrong(node, message));
        }
        if root == Root::Headers && HeaderName::try_from(name).is_err() {
            return Err(self.wrong(node, format!("`{name}` is not the name of a header")));
        }
        self.found.push(Reference {
            root,
            name: Some(name.to_owned()),
            field: None,
            offset: self.offset(node),
        });
        Ok(())
    }

    /// Refuses a member of what can only be a text.
    fn of_text(&self, node: &'e IdedExpr) -> Checked {
        let operand = match &node.expr {
            Expr::Select(select) => &select.operand,
            Expr::Call(call) if call.func_name == operators::INDEX => match call.args.first() {
                Some(operand) => operand,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        match self.root_of(operand)? {
            Some(root) if root.holds_texts() => {
                let message = format!("what `{}` holds is text and has no members", root.name());
                Err(self.wrong(operand, message))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn call(&mut self, node: &'e IdedExpr, call: &'e CallExpr) -> Checked {
        let name = call.func_name.as_str();
        if name == operators::INDEX
            && let [operand, index] = call.args.as_slice()
        {
            self.of_text(operand)?;
            if let Expr::Literal(LiteralValue::String(name)) = &index.expr {
                if let Some(root) = self.root_of(operand)? {
                    return self.member(operand, root, name.inner());
                }
                if self.field_of_answer(operand, name.inner())? {
                    return Ok(());
                }
            }
        }
        if !OPERATORS.contains(&name) {
            self.function(node, call)?;
        }
        let target = call.target.as_deref();
        target
            .into_iter()
            .chain(&call.args)
            .try_for_each(|part| self.expression(part))
    }

    fn function(&self, node: &IdedExpr, call: &CallExpr) -> Checked {
        let name = call.func_name.as_str();
        let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let message = match (known, call.target.is_some(), call.args.len()) {
            (Some((_, Call::Global | Call::Either)), false, 1)
            | (Some((_, Call::Member)), true, 1)
            | (Some((_, Call::Either)), true, 0) => return Ok(()),
            (Some((_, Call::Global | Call::Either)), ..) => {
                format!("`{name}` is called as `{name}(x)`")
            }
            (Some((_, Call::Member)), ..) => format!("`{name}` is called as `x.{name}(y)`"),
            (None, ..) if MACROS.contains(&name) => format!("`{name}` is not called like this"),
            (None, ..) => {
                let functions: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
                format!(
                    "`{name}` is not a function here; there are {}, {}",
                    functions.join(", "),
                    MACROS.join(", ")
                )
            }
        };
        Err(self.wrong_call(node, name, message))
    }

    fn each(&mut self, node: &'e IdedExpr, each: &'e ComprehensionExpr) -> Checked {
        if Root::named(&each.iter_var).is_some() {
            let message = format!(
                "`{}` is a root; call the loop's variable otherwise",
                each.iter_var
            );
            return Err(self.wrong(node, message));
        }
        self.expression(&each.iter_range)?;
        self.expression(&each.accu_init)?;
        let before = self.bound.len();
        self.bound.push(&each.iter_var);
        self.bound.extend(each.iter_var2.as_deref());
        let inner = [&each.loop_cond, &each.loop_step, &each.result]
            .into_iter()
            .try_for_each(|part| self.expression(part));
        self.bound.truncate(before);
        inner
    }

    fn offset(&self, node: &IdedExpr) -> usize {
        let start = self
            .places
            .offset_for(node.id)
            .map_or(0, |(start, _)| start);
        usize::try_from(start).unwrap_or_default()
    }

    fn wrong(&self, node: &IdedExpr, message: impl Into<String>) -> ExpressionError {
        ExpressionError {
            offset: self.offset(node),
            message: message.into(),
        }
    }

    /// A call is placed at its parenthesis; people look for its name.
    fn wrong_call(&self, node: &IdedExpr, name: &str, message: String) -> ExpressionError {
        let offset = self.offset(node);
        let before = self.places.source.get(..offset).unwrap_or_default();
        let start = before.trim_end().strip_suffix(name).map(str::len);
        ExpressionError {
            offset: start.unwrap_or(offset),
            message,
        }
    }
}
