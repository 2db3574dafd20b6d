//! Makes a program smaller while its fault remains.

use super::model::*;

/// The smallest program for which `differs` is still true. It drops one thing at a time.
pub(super) fn shrink(mut program: Program, differs: impl Fn(&Program) -> bool) -> Program {
    loop {
        let before = program.clone();
        let mut at = 0;
        // After a drop, the next candidate is at the same index.
        while let Some(smaller) = smaller(&program).into_iter().nth(at) {
            if differs(&smaller) {
                program = smaller;
            } else {
                at += 1;
            }
        }
        if program == before {
            return program;
        }
    }
}

/// Smaller programs; those that drop most come first.
fn smaller(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let mut changed = |change: &dyn Fn(&mut Program)| {
        let mut smaller = program.clone();
        change(&mut smaller);
        if smaller != *program {
            all.push(smaller);
        }
    };
    for library in program.libraries.iter().skip(1) {
        changed(&|program| drop_library(program, library.id));
    }
    for step in 0..program.steps.len() {
        changed(&|program| {
            program.steps.remove(step);
        });
        for operation in 0..program.steps[step].len() {
            changed(&|program| {
                program.steps[step].remove(operation);
            });
        }
    }
    changed(&|program| program.global = false);
    for (at, library) in program.libraries.iter().enumerate() {
        macro_rules! each {
            ($($field:ident).+) => {
                for index in 0..library.$($field).+.len() {
                    changed(&|program| {
                        program.libraries[at].$($field).+.remove(index);
                    });
                }
            };
        }
        macro_rules! plain {
            ($($($field:ident).+ = $value:expr;)*) => {
                $(changed(&|program| program.libraries[at].$($field).+ = $value);)*
            };
        }
        plain!(link = Link { hash: "gnu", ..Link::default() }; opens = None;);
        each!(needs);
        each!(definitions);
        each!(references);
        each!(constructors);
        each!(destructors);
        each!(link.options);
        plain! {
            folder = ""; needs_absent = false; shows_early = false; exit_handler = false;
            misses = false; link.linker = ""; link.hash = "gnu"; link.symbolic = None;
            link.now = false; link.stays = false; link.versioned = false;
            link.search = Search::Runpath;
        }
        for (index, definition) in library.definitions.iter().enumerate() {
            let plain = Definition {
                name: definition.name,
                indirect: false,
                zero: false,
                aligned: false,
                weak: false,
                visibility: Visibility::Default,
                version: definition.version,
            };
            changed(&|program| program.libraries[at].definitions[index] = plain.clone());
        }
    }
    for (step, acts) in program.steps.iter().enumerate() {
        for (number, act) in acts.iter().enumerate() {
            changed(&|program| program.steps[step][number].thread = Thread::First);
            if let Operation::Open { mode, .. } = &act.operation {
                for flag in 0..mode.flags.len() {
                    changed(&|program| {
                        if let Operation::Open { mode, .. } =
                            &mut program.steps[step][number].operation
                        {
                            mode.flags.remove(flag);
                        }
                    });
                }
                changed(&|program| {
                    if let Operation::Open { mode, by_name, .. } =
                        &mut program.steps[step][number].operation
                    {
                        (mode.lazy, *by_name) = (false, false);
                    }
                });
            }
        }
    }
    all
}

fn drop_library(program: &mut Program, id: Id) {
    program.libraries.retain(|library| library.id != id);
    for library in &mut program.libraries {
        library.needs.retain(|&need| need != id);
        library.opens.take_if(|(opened, ..)| *opened == id);
    }
    for step in &mut program.steps {
        step.retain(
            |act| !matches!(act.operation, Operation::Open { library, .. } if library == id),
        );
    }
}
