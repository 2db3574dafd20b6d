//! Which libraries are replicated, loaded once by us, or left to the system loader.
//!
//! A library that a domain brings belongs to it, wherever the file lies: its variables are state, and each program expects
//! its own. The exceptions are libraries that the program began with or that a rule names. The loader has built-in rules for
//! the libraries of the C library and of the compiler, since these serve the whole process in any program. Its user adds
//! rules for other libraries.

use std::borrow::Cow;
use std::path::Path;

use glob::Pattern;

/// How a library that a domain needs is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Loaded by us once per domain: own data, shared text.
    Replicate,
    /// Loaded by us once for all domains.
    Commons,
    /// Loaded once by the system's loader.
    System,
}

/// A rule's decision about the files that match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// They have this class.
    Class(Class),
    /// Their symbols decide. They are replicated only if they need a symbol that belongs to the domain.
    Symbols,
    /// They are not loaded. The reason is the error's ([`Error::Refused`](crate::Error::Refused)).
    Refused,
    /// Each domain has its own, and libraries that exist once use the system's. A library that the program began with is
    /// a domain's own too if it needs one of these.
    Apart,
}

impl From<Class> for Decision {
    fn from(class: Class) -> Decision {
        Decision::Class(class)
    }
}

/// One line of a policy: what it decides about files whose path matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    pattern: Pattern,
    /// A text that every matching path contains: cheaper to search for first.
    literal: String,
    decision: Decision,
    reason: Cow<'static, str>,
}

/// An ordered table of rules; the first that matches a file's path decides.
///
/// Patterns are those of the `glob` crate, where `*` also matches `/`. A custom rule stands before the
/// built-in rules and overrides them.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// Why a file without a rule is replicated.
pub(crate) const BROUGHT: &str = "the domain brings it";

/// The rules that hold for any program: the C library, the compiler's runtime libraries, and nothing else. Rules for
/// other libraries come from the user, by [`Policy::with`] and [`Policy::with_last`]. A file that no rule matches is
/// replicated, unless the program began with it (the executable, preloaded objects, and their needs), or a library that a
/// rule shares needs it. A library that the program opened later by `dlopen` is not the program's own in this sense: it
/// belongs to the code that opened it.
impl Default for Policy {
    fn default() -> Policy {
        let mut policy = Policy { rules: Vec::new() };
        // The C library and its parts own the process: threads, TLS, signals, unwinding.
        for pattern in [
            "*/libc.so*",
            "*/libm.so*",
            "*/libdl.so*",
            "*/libpthread.so*",
            "*/librt.so*",
            "*/libutil.so*",
            "*/libresolv.so*",
            "*/libanl.so*",
            "*/libmvec.so*",
            "*/libnss_*.so*",
            "*/ld-linux*.so*",
            "*/libgcc_s.so*",
        ] {
            policy.push(pattern, Class::System, "it owns state of the whole process");
        }
        // It keeps a program's streams, handlers, locale and default memory resource.
        policy.push("*/libstdc++.so*", Decision::Apart, "the state of C++ is the domain's");
        // Thread pools, reached through initial-exec TLS: one team of workers per process.
        policy.push("*/libgomp*.so*", Class::System, "its threads serve the whole process");
        policy
    }
}

impl Policy {
    /// Puts a rule in front of all others.
    ///
    /// # Panics
    /// If `pattern` is not a valid pattern of the `glob` crate ([`Policy::check`]).
    #[must_use]
    pub fn with(
        mut self,
        pattern: &str,
        decision: impl Into<Decision>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Policy {
        let last = self.rules.len();
        self.push(pattern, decision, reason);
        let rule = self.rules.remove(last);
        self.rules.insert(0, rule);
        self
    }

    /// Puts a rule behind all others.
    ///
    /// # Panics
    /// If `pattern` is not a valid pattern of the `glob` crate ([`Policy::check`]).
    #[must_use]
    pub fn with_last(
        mut self,
        pattern: &str,
        decision: impl Into<Decision>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Policy {
        self.push(pattern, decision, reason);
        self
    }

    /// Checks a pattern for a rule.
    ///
    /// # Errors
    /// A text that names the fault and its position in the pattern.
    pub fn check(pattern: &str) -> Result<(), String> {
        Pattern::new(pattern).map(drop).map_err(|error| error.to_string())
    }

    fn push(
        &mut self,
        pattern: &str,
        decision: impl Into<Decision>,
        reason: impl Into<Cow<'static, str>>,
    ) {
        let pattern = Pattern::new(pattern)
            .unwrap_or_else(|error| panic!("policy pattern {pattern}: {error}"));
        self.rules.push(Rule {
            literal: literal(pattern.as_str()),
            pattern,
            decision: decision.into(),
            reason: reason.into(),
        });
    }

    /// A rule's decision about the file at `path`, and its reason.
    pub fn decision(&self, path: &Path) -> Option<(Decision, &str)> {
        let path = path.to_str()?;
        self.rules
            .iter()
            .find(|rule| path.contains(&rule.literal) && rule.pattern.matches(path))
            .map(|rule| (rule.decision, &*rule.reason))
    }

    /// Whether domains have the file at `path` apart.
    pub(crate) fn is_apart(&self, path: &Path) -> bool {
        self.decision(path).is_some_and(|it| it.0 == Decision::Apart)
    }

    /// The class that a rule gives to every file called `name`, in any directory; none if the directory
    /// counts.
    pub(crate) fn class_of_name(&self, name: &str) -> Option<Class> {
        let path = format!("/{name}");
        let matches = |rule: &Rule| path.contains(&rule.literal) && rule.pattern.matches(&path);
        let decides = |rule: &Rule| rule.is_for_names() && matches(rule);
        let index = self.rules.iter().position(decides)?;
        let Decision::Class(class) = self.rules[index].decision else { return None };
        // An earlier one may match by a directory's name.
        let undecided = |rule: &Rule| rule.decision != class.into() && rule.may_match(name);
        (!self.rules[..index].iter().any(undecided)).then_some(class)
    }
}

impl Rule {
    /// Whether its pattern matches a path as soon as the file's name matches what follows `*/`.
    fn is_for_names(&self) -> bool {
        self.pattern.as_str().strip_prefix("*/").is_some_and(|name| !name.contains('/'))
    }

    /// Whether there may be a file called `name` that it matches.
    fn may_match(&self, name: &str) -> bool {
        let last = self.pattern.as_str().rsplit('/').next().unwrap_or_default();
        last.contains(['*', '?', '[']) || last == name
    }
}

/// The longest text that every match of the pattern holds.
fn literal(pattern: &str) -> String {
    // In brackets stand alternatives.
    if pattern.contains('[') {
        return String::new();
    }
    pattern.split(['*', '?']).max_by_key(|part| part.len()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_with_brackets_and_question_marks_match_as_before() {
        let policy = Policy::default().with("*/lib[ab]c?.so", Class::Commons, "test").with(
            "*/lib?y*.so",
            Class::Replicate,
            "test",
        );
        let class = |path: &str| policy.decision(Path::new(path)).map(|rule| rule.0);
        assert_eq!(class("/x/libac1.so"), Some(Class::Commons.into()));
        assert_eq!(class("/x/libcc1.so"), None);
        assert_eq!(class("/x/libxyz.so"), Some(Class::Replicate.into()));
        assert_eq!(class("/x/liby.so"), None);
    }

    #[test]
    fn without_rules_of_a_user_only_the_c_library_and_the_compilers_have_one() {
        let decision = |path: &str| Policy::default().decision(Path::new(path)).map(|it| it.0);
        let ruled = |rule: &Rule| [Class::System.into(), Decision::Apart].contains(&rule.decision);
        assert!(Policy::default().rules.iter().all(ruled));
        assert_eq!(decision("/usr/lib/libreadline.so.8"), None);
        assert_eq!(decision("/usr/lib/libstdc++.so.6.0.30"), Some(Decision::Apart));
    }

    #[test]
    fn a_custom_rule_overrides_a_built_in_one() {
        let path = Path::new("/usr/lib/libm.so.6");
        assert_eq!(Policy::default().decision(path).unwrap().0, Class::System.into());
        let policy = Policy::default().with("*/libm.*", Class::Replicate, "test");
        assert_eq!(policy.decision(path).unwrap().0, Class::Replicate.into());
    }

    #[test]
    fn a_last_rule_decides_where_no_other_does() {
        let policy = Policy::default().with_last("*/lib[mx].so*", Class::Replicate, "test");
        let class = |path: &str| policy.decision(Path::new(path)).unwrap().0;
        assert_eq!(class("/usr/lib/libm.so.6"), Class::System.into());
        assert_eq!(class("/usr/lib/libx.so.6"), Class::Replicate.into());
    }

    #[test]
    fn a_name_decides_only_where_no_directory_can() {
        let class = |policy: &Policy, name: &str| policy.class_of_name(name);
        let policy = Policy::default().with_last("*/libtcl*.so*", Class::Replicate, "test");
        assert_eq!(class(&policy, "libm.so.6"), Some(Class::System));
        assert_eq!(class(&policy, "libfoo.so.1"), None);
        // Behind rules of the other class that a directory's name could satisfy.
        assert_eq!(class(&policy, "libtcl8.6.so"), None);
        let policy = policy.with("/opt/x/libfoo.so", Class::Replicate, "test");
        assert_eq!(class(&policy, "libm.so.6"), Some(Class::System));
        let policy = policy.with("/opt/y/*", Class::Replicate, "test");
        assert_eq!(class(&policy, "libm.so.6"), None);
        let policy = policy.with("*/libm.so*", Class::Replicate, "test");
        assert_eq!(class(&policy, "libm.so.6"), Some(Class::Replicate));
        let policy = Policy::default().with("*/libm.so*", Decision::Symbols, "test");
        assert_eq!(class(&policy, "libm.so.6"), None);
    }

    #[test]
    fn a_library_without_a_rule_has_no_decision() {
        assert_eq!(Policy::default().decision(Path::new("/opt/x/libfoo.so.1")), None);
    }
}
