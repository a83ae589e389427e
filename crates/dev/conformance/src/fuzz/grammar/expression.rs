//! Generates expressions of a given type.

use super::{Scope, Ty, Writer};

impl Writer<'_> {
    pub(super) fn literal(&mut self, ty: Ty) -> String {
        let (width, sign) = match ty {
            Ty::Bool => return self.rng.bool().to_string(),
            Ty::Bits(width) => (width, 'w'),
            Ty::Signed(width) => (width, 's'),
        };
        let most = if sign == 's' {
            width.saturating_sub(1)
        } else {
            width
        };
        let value = match self.below(4) {
            0 => 0,
            1 => u128::MAX.checked_shr(128 - most.min(128)).unwrap_or(0),
            2 => self.rng.u128(..) & u128::MAX.checked_shr(128 - most.min(128)).unwrap_or(0),
            _ => u128::from(most > 0),
        };
        if self.chance(3) && !self.chance(20) {
            format!("{width}{sign}{value}")
        } else {
            format!("({}) {value}", ty.text())
        }
    }

    /// Returns a value's name or a literal of this type, sometimes a name of another type.
    fn leaf(&mut self, scope: &Scope, ty: Ty) -> String {
        let fitting: Vec<&String> = scope
            .values
            .iter()
            .filter(|(_, other)| *other == ty || self.names.is_multiple_of(97))
            .map(|(name, _)| name)
            .collect();
        let at = self.below(fitting.len());
        match fitting.get(at) {
            Some(name) if !self.chance(4) => (*name).clone(),
            _ => self.literal(ty),
        }
    }

    pub(super) fn expr(&mut self, scope: &Scope, ty: Ty, depth: u32) -> String {
        if depth == 0 || self.chance(3) {
            return self.leaf(scope, ty);
        }
        let next = depth - 1;
        if self.chance(12) {
            let (condition, a, b) = (
                self.expr(scope, Ty::Bool, next),
                self.expr(scope, ty, next),
                self.expr(scope, ty, next),
            );
            return format!("({condition} ? {a} : {b})");
        }
        let fitting: Vec<(String, Vec<Ty>)> = scope
            .functions
            .iter()
            .filter(|(_, _, returns)| *returns == ty)
            .map(|(name, parameters, _)| (name.clone(), parameters.clone()))
            .collect();
        if self.chance(6)
            && let Some((name, parameters)) = self.pick(&fitting)
        {
            return self.call(scope, &name, &parameters, next);
        }
        match ty {
            Ty::Bool => self.condition(scope, next),
            Ty::Bits(width) => self.bits(scope, width, next),
            Ty::Signed(width) => match self.below(4) {
                0 => format!("(int<{width}>) {}", self.expr(scope, Ty::Bits(width), next)),
                1 => format!("(-{})", self.expr(scope, ty, next)),
                _ => self.operation(scope, ty, next),
            },
        }
    }

    pub(super) fn call(
        &mut self,
        scope: &Scope,
        name: &str,
        parameters: &[Ty],
        depth: u32,
    ) -> String {
        let arguments: Vec<String> = parameters
            .iter()
            .map(|ty| self.expr(scope, *ty, depth))
            .collect();
        format!("{name}({})", arguments.join(", "))
    }

    fn operation(&mut self, scope: &Scope, ty: Ty, depth: u32) -> String {
        let ops = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"];
        let op = self.pick(&ops).unwrap_or("+");
        let (a, b) = (self.expr(scope, ty, depth), self.expr(scope, ty, depth));
        format!("({a} {op} {b})")
    }

    fn bits(&mut self, scope: &Scope, width: u32, depth: u32) -> String {
        let ty = Ty::Bits(width);
        match self.below(8) {
            0 => {
                let wide = width + self.below(20) as u32;
                let low = self.below((wide - width + 1) as usize) as u32;
                let inner = self.expr(scope, Ty::Bits(wide), depth);
                format!("({inner})[{}:{low}]", low + width - 1)
            }
            1 if width > 1 => {
                let high = 1 + self.below(width as usize - 1) as u32;
                let (a, b) = (
                    self.expr(scope, Ty::Bits(high), depth),
                    self.expr(scope, Ty::Bits(width - high), depth),
                );
                format!("({a} ++ {b})")
            }
            2 => {
                let amount = Ty::Bits(self.width());
                let op = if self.rng.bool() { "<<" } else { ">>" };
                let (a, b) = (self.expr(scope, ty, depth), self.expr(scope, amount, depth));
                format!("({a} {op} {b})")
            }
            3 => {
                let from = Ty::Bits(self.width());
                format!("({}) {}", ty.text(), self.expr(scope, from, depth))
            }
            4 => format!("(~{})", self.expr(scope, ty, depth)),
            5 if width == 1 => format!("(bit<1>) ({})", self.expr(scope, Ty::Bool, depth)),
            _ => self.operation(scope, ty, depth),
        }
    }

    fn condition(&mut self, scope: &Scope, depth: u32) -> String {
        match self.below(5) {
            0 if !scope.headers.is_empty() => {
                let header = self.pick(&scope.headers).unwrap_or_default();
                format!("{header}.isValid()")
            }
            1 => format!("!({})", self.expr(scope, Ty::Bool, depth)),
            2 => {
                let op = if self.rng.bool() { "&&" } else { "||" };
                let (a, b) = (
                    self.expr(scope, Ty::Bool, depth),
                    self.expr(scope, Ty::Bool, depth),
                );
                format!("({a} {op} {b})")
            }
            _ => {
                let ty = Ty::Bits(self.width());
                let op = self
                    .pick(&["==", "!=", "<", "<=", ">", ">="])
                    .unwrap_or("==");
                let (a, b) = (self.expr(scope, ty, depth), self.expr(scope, ty, depth));
                format!("({a} {op} {b})")
            }
        }
    }
}
