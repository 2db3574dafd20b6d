//! Writes a program as C: one source file for each library.

use std::fmt::Write;

use super::model::*;

/// The line after the last operation.
pub(super) const END: &str = "-- end\n";

/// The source of `library`.
pub(super) fn source(program: &Program, library: &Library) -> String {
    let mut text = String::from("#include \"random.h\"\n");
    for definition in &library.definitions {
        define(&mut text, library, definition);
    }
    anchor(&mut text, program, library);
    let references = meaningful(program, library);
    for reference in &references {
        declare(&mut text, program, library, reference);
    }
    show(&mut text, library, &references);
    if library.misses {
        text += "void missing(void);\n\
                 void never(void) { __asm__ volatile(\"call missing@PLT\"); }\n";
    }
    lifecycle(&mut text, program, library);
    if library.id == MAIN {
        test(&mut text, program);
    }
    text
}

/// A number that distinguishes a definition from all others of its name.
fn tag(library: &Library, name: Name) -> usize {
    let (Name::Function(number) | Name::Data(number) | Name::Unique(number) | Name::Thread(number)) =
        name;
    1000 + library.id * 100 + number * 10
}

fn define(text: &mut String, library: &Library, definition: &Definition) {
    let attributes = attributes(definition);
    let mut variant = |symbol: &str, tag: usize| match definition.name {
        Name::Function(_) if definition.indirect => {
            let _ = write!(
                text,
                "static int chosen_{symbol}(void) {{ return {tag}; }}\n\
                 static void *choose_{symbol}(void) {{ return (void *)chosen_{symbol}; }}\n\
                 {attributes}int {symbol}(void) __attribute__((ifunc(\"choose_{symbol}\")));\n"
            );
        }
        Name::Function(_) => {
            let _ = writeln!(
                text,
                "{attributes}__attribute__((noipa)) int {symbol}(void) {{ return {tag}; }}"
            );
        }
        Name::Data(_) if definition.zero => {
            let _ = writeln!(text, "{attributes}int {symbol}[4];");
        }
        Name::Data(_) => {
            let _ = writeln!(
                text,
                "{attributes}int {symbol}[4] = {{{tag}, {}, {}, {}}};",
                tag + 1,
                tag + 2,
                tag + 3
            );
        }
        // gcc makes unique symbols of C++ templates only. A library that defines one refers to it: among the
        // definitions of a name, glibc uses the one that was looked up first, and we use the one that was loaded
        // first.
        Name::Unique(_) => {
            let _ = writeln!(
                text,
                "__asm__(\".pushsection .data\\n.balign 4\\n.globl {symbol}\\n\
                 .type {symbol},@gnu_unique_object\\n.size {symbol},16\\n\
                 {symbol}: .long {tag},0,{},0\\n.popsection\");\nextern int {symbol}[4];\n\
                 static int *volatile anchor_{symbol} = {symbol};",
                tag + 2
            );
        }
        Name::Thread(_) if definition.zero => {
            let _ = writeln!(text, "{attributes}__thread int {symbol};");
        }
        Name::Thread(_) => {
            let _ = writeln!(text, "{attributes}__thread int {symbol} = {tag};");
        }
    };
    let (name, stem) = (definition.name, library.stem());
    let tag = tag(library, name);
    let (old, new) = match library.versions(definition) {
        Versions::Base => return variant(&name.to_string(), tag),
        Versions::Old => (true, false),
        Versions::New => (false, true),
        Versions::Both => (true, true),
    };
    if old {
        variant(&format!("{name}_{stem}_old"), tag + 5);
    }
    if new {
        variant(&format!("{name}_{stem}_new"), tag);
    }
    if old {
        let _ = writeln!(text, "__asm__(\".symver {name}_{stem}_old, {name}@V1\");");
    }
    if new {
        let _ = writeln!(text, "__asm__(\".symver {name}_{stem}_new, {name}@@V2\");");
    }
}

/// Makes the library ask for static TLS if others want its thread-local data there: see `draw`.
fn anchor(text: &mut String, program: &Program, library: &Library) {
    let is_wanted = |name: Name| {
        let mut references = program.libraries.iter().flat_map(|library| &library.references);
        references.any(|reference| reference.how == How::InitialExec && reference.name == name)
    };
    let mut definitions = library.definitions.iter();
    if definitions
        .any(|definition| matches!(definition.name, Name::Thread(_)) && is_wanted(definition.name))
    {
        *text += "static __thread int anchor __attribute__((tls_model(\"initial-exec\")));\n\
                  int *anchor_of(void) { return &anchor; }\n";
    }
}

fn attributes(definition: &Definition) -> String {
    let mut attributes = String::new();
    // gcc has no weak indirect functions.
    if definition.weak && !definition.indirect && !matches!(definition.name, Name::Unique(_)) {
        attributes += "__attribute__((weak)) ";
    }
    match definition.visibility {
        Visibility::Default => {}
        Visibility::Protected => attributes += "__attribute__((visibility(\"protected\"))) ",
        Visibility::Hidden => attributes += "__attribute__((visibility(\"hidden\"))) ",
    }
    if definition.aligned && !matches!(definition.name, Name::Function(_)) {
        // glibc places thread-local data in static TLS only up to the alignment of its own, 64 bytes.
        attributes += "__attribute__((aligned(64))) ";
    }
    attributes
}

/// The references that the program can have. A reference to an older version needs a library that defines it when
/// this one is linked; a reference to thread-local data needs a definition.
fn meaningful<'a>(program: &Program, library: &'a Library) -> Vec<&'a Reference> {
    let is_offered = |name| program.closure(library.id).iter().any(|library| library.offers(name));
    let needs = || library.needs.iter().filter_map(|&need| program.library(need));
    let mut later = program.libraries.iter().skip_while(|other| other.id != library.id).skip(1);
    let is_stubbed = later.any(|other| other.needs.contains(&library.id));
    let kept = |reference: &&Reference| match (reference.how, reference.name) {
        // A need that is not built yet is linked without its own needs at first (`build`).
        (How::Old, name) => !is_stubbed && needs().any(|need| need.offers_old(name)),
        (_, name @ Name::Thread(_)) => {
            library.definition(name).is_some_and(|own| library.versions(own) != Versions::Old)
                || is_offered(name)
        }
        _ => true,
    };
    library.references.iter().filter(kept).collect()
}

/// Whether a library may refer to a name that neither it nor its needs define, but that a library loaded together
/// with one of its needs defines. In domains beside the program such a reference finds the definition in the load of
/// its need. In glibc's world it finds nothing.
pub(super) fn asks_others(program: &Program) -> bool {
    let opened = program.steps.iter().flatten().filter_map(|act| match act.operation {
        Operation::Open { library, .. } => Some(library),
        _ => None,
    });
    let early = program.libraries.iter().filter_map(|library| library.opens.as_ref());
    let roots: Vec<Id> = opened.chain(early.map(|(library, ..)| *library)).chain([MAIN]).collect();
    program.libraries.iter().any(|library| {
        let near = program.closure(library.id);
        let others = || {
            roots.iter().map(|&root| program.closure(root)).filter(|others| {
                others.iter().any(|other| near.iter().skip(1).any(|need| need.id == other.id))
            })
        };
        let elsewhere = |name| {
            let defines =
                |other: &&Library| other.id != library.id && other.definition(name).is_some();
            program.libraries.iter().any(|other| defines(&other))
        };
        meaningful(program, library).into_iter().any(|reference| match reference.how {
            How::Old => false,
            // They also search the libraries after the near ones, and the scopes of later loads.
            How::Next | How::Default => elsewhere(reference.name),
            _ => {
                !near.iter().any(|near| near.offers(reference.name))
                    && others().flatten().any(|other| other.definition(reference.name).is_some())
            }
        })
    })
}

/// Whether a reference is weak. A reference that may find nothing is weak too, because a call of it would end the
/// program.
fn is_weak(program: &Program, library: &Library, name: Name) -> bool {
    let own = library.definition(name);
    if own.is_some() {
        return false;
    }
    let wanted =
        library.references.iter().any(|reference| reference.name == name && reference.weak);
    let offered = program.closure(library.id).iter().any(|library| library.offers(name));
    // Without the flag, a missing function is an error only at its call.
    wanted || !(offered || library.link.now)
}

fn declare(text: &mut String, program: &Program, library: &Library, reference: &Reference) {
    let (name, stem) = (reference.name, library.stem());
    let is_base = library
        .definition(name)
        .is_some_and(|definition| library.versions(definition) == Versions::Base);
    let weak = if is_weak(program, library, name) { "__attribute__((weak)) " } else { "" };
    let kind = match name {
        Name::Function(_) => format!("int {name}(void)"),
        Name::Data(_) | Name::Unique(_) => format!("extern int {name}[4]"),
        Name::Thread(_) => format!("extern __thread int {name}"),
    };
    if !is_base && !matches!(reference.how, How::Next | How::Default | How::Old) {
        let _ = writeln!(text, "{weak}{kind};");
    }
    let _ = match (reference.how, name) {
        (How::Word, Name::Function(_)) => {
            writeln!(text, "static int (*volatile word_{name})(void) = {name};")
        }
        (How::Word, _) => {
            writeln!(text, "static int *volatile word_{name} = &{name}[2];")
        }
        (How::Old, Name::Function(_)) => writeln!(
            text,
            "int {name}_{stem}_wants(void);\n\
             __asm__(\".symver {name}_{stem}_wants, {name}@V1\");"
        ),
        (How::Old, _) => writeln!(
            text,
            "extern int {name}_{stem}_wants[4];\n\
             __asm__(\".symver {name}_{stem}_wants, {name}@V1\");"
        ),
        _ => Ok(()),
    };
}

/// The function that prints the target of each reference.
fn show(text: &mut String, library: &Library, references: &[&Reference]) {
    let stem = library.stem();
    let _ = writeln!(text, "void show_{stem}(void)\n{{\n    SAY(\"{stem} shows\\n\");");
    for reference in references {
        let name = reference.name;
        let _ = match (reference.how, name) {
            (How::Direct, Name::Function(_)) => writeln!(
                text,
                "    if ({name}) see(\"{stem} {name}\", {name}(), (void *){name});\n    \
                 else SAY(\"{stem} {name} is null\\n\");"
            ),
            (How::Direct, Name::Data(_) | Name::Unique(_)) => writeln!(
                text,
                "    if (&{name}) see(\"{stem} {name}\", {name}[0]++, {name});\n    \
                 else SAY(\"{stem} {name} is null\\n\");"
            ),
            (How::InitialExec | How::Direct, Name::Thread(_)) => writeln!(
                text,
                "    {{\n    extern __thread int {name}{};\n    \
                 SAY(\"{stem} {name} = %d, aligned %d\\n\", {name}++, \
                 (int)((unsigned long)&{name} % 4));\n    }}",
                if reference.how == How::InitialExec {
                    " __attribute__((tls_model(\"initial-exec\")))"
                } else {
                    ""
                }
            ),
            (How::Word, Name::Function(_)) => writeln!(
                text,
                "    if (word_{name}) see(\"{stem} word {name}\", word_{name}(), \
                 (void *)word_{name});\n    else SAY(\"{stem} word {name} is null\\n\");"
            ),
            // An undefined weak one plus 8.
            (How::Word, _) => writeln!(
                text,
                "    if ((unsigned long)word_{name} > 8) \
                 see(\"{stem} word {name}\", *word_{name}, word_{name});\n    \
                 else SAY(\"{stem} word {name} is %d\\n\", (int)(long)word_{name});"
            ),
            (How::Old, Name::Function(_)) => writeln!(
                text,
                "    see(\"{stem} old {name}\", {name}_{stem}_wants(), \
                 (void *){name}_{stem}_wants);"
            ),
            (How::Old, _) => writeln!(
                text,
                "    see(\"{stem} old {name}\", {name}_{stem}_wants[0]++, {name}_{stem}_wants);"
            ),
            (How::Next | How::Default, _) => {
                let place = if reference.how == How::Next { "RTLD_NEXT" } else { "RTLD_DEFAULT" };
                look(text, &format!("{stem} {place}"), place, name, None);
                Ok(())
            }
            (How::InitialExec, _) => Ok(()),
        };
    }
    *text += "}\n";
}

/// Calls `dlsym` or `dlvsym` and prints the result.
fn look(text: &mut String, what: &str, place: &str, name: Name, version: Option<&str>) {
    let call = match version {
        None => format!("dlsym({place}, \"{name}\")"),
        Some(version) => format!("dlvsym({place}, \"{name}\", \"{version}\")"),
    };
    let what = format!("{what} {name} {}", version.unwrap_or("any"));
    let value = match name {
        Name::Function(_) => "((int (*)(void))found)()",
        _ => "*(int *)found",
    };
    let _ = writeln!(
        text,
        "    {{\n        void *found = {call};\n        \
         if (found) see(\"{what}\", {value}, found);\n        else tell(\"{what}\");\n    }}"
    );
}

/// Ends the program if a handle does not find all that its library needs. Some handles of glibc do not
/// (docs/loader.md, "Random programs").
fn whole(text: &mut String, program: &Program, library: Id, handle: &str) {
    for needed in program.closure(library) {
        let stem = needed.stem();
        let _ = writeln!(text, "    if ({handle} && !dlsym({handle}, \"show_{stem}\")) apart();");
    }
}

fn lifecycle(text: &mut String, program: &Program, library: &Library) {
    let stem = library.stem();
    if library.exit_handler {
        let _ = writeln!(text, "static void handler(void) {{ SAY(\"{stem} exit handler\\n\"); }}");
    }
    if library.opens.is_some() {
        *text += "static void *opened;\n";
    }
    let priority = |priority: u32| match priority {
        0 => String::new(),
        priority => format!("({priority})"),
    };
    for (index, &order) in library.constructors.iter().enumerate() {
        let _ = writeln!(
            text,
            "__attribute__((constructor{})) static void begin_{index}(void)\n{{\n    \
             SAY(\"{stem} begins {index} {order}\\n\");",
            priority(order)
        );
        if index == 0 && library.exit_handler {
            *text += "    atexit(handler);\n";
        }
        if index == 0
            && let Some((other, mode, closes)) = &library.opens
        {
            let file = format!("l{other}.so");
            let flags = flags(mode);
            let _ = writeln!(
                text,
                "    opened = dlopen(\"{file}\", {flags} | kept());\n    \
                 if (opened) SAY(\"{stem} has opened {file}\\n\");\n    \
                 else tell(\"{stem} opens {file}\");"
            );
            whole(text, program, *other, "opened");
            if *closes == Closes::AtOnce {
                let _ = writeln!(
                    text,
                    "    if (opened) SAY(\"{stem} closes %d\\n\", dlclose(opened));"
                );
            }
        }
        if index == 0 && library.shows_early {
            let _ = writeln!(text, "    show_{stem}();");
        }
        *text += "}\n";
    }
    for (index, &order) in library.destructors.iter().enumerate() {
        let _ = writeln!(
            text,
            "__attribute__((destructor{})) static void end_{index}(void)\n{{\n    \
             SAY(\"{stem} ends {index} {order}\\n\");",
            priority(order)
        );
        if index == 0 && matches!(library.opens, Some((.., Closes::InDestructor))) {
            let _ =
                writeln!(text, "    if (opened) SAY(\"{stem} closes %d\\n\", dlclose(opened));");
        }
        *text += "}\n";
    }
}

fn flags(mode: &Mode) -> String {
    let mut flags = String::from(if mode.lazy { "RTLD_LAZY" } else { "RTLD_NOW" });
    for flag in &mode.flags {
        let _ = write!(flags, " | RTLD_{flag}");
    }
    flags
}

/// The operations.
fn test(text: &mut String, program: &Program) {
    *text += "static void *handle[4];\nstatic int step;\n";
    let is_old = |act: &Act| act.thread == Thread::Old;
    let has_old = program.steps.iter().flatten().any(is_old);
    for (index, acts) in program.steps.iter().enumerate() {
        for (number, act) in acts.iter().enumerate() {
            let _ = writeln!(text, "static void *act_{index}_{number}(void *none)\n{{");
            let _ = writeln!(text, "    SAY(\"-- {index}.{number}\\n\");");
            operate(text, program, &act.operation);
            *text += "    return 0;\n}\n";
        }
    }
    *text += "void test(void)\n{\n";
    if has_old {
        *text += "    if (!step) start_worker();\n";
    }
    *text += "    switch (step++) {\n";
    for (index, acts) in program.steps.iter().enumerate() {
        let _ = writeln!(text, "    case {index}:");
        for (number, act) in acts.iter().enumerate() {
            let act_of = format!("act_{index}_{number}");
            let _ = match act.thread {
                Thread::First => writeln!(text, "        {act_of}(0);"),
                Thread::New => writeln!(text, "        on_new_thread({act_of});"),
                Thread::Old => writeln!(text, "        on_worker({act_of});"),
            };
        }
        *text += "        break;\n";
    }
    *text += "    }\n";
    let _ = writeln!(text, "    if (step != {}) return;", program.steps.len());
    if has_old {
        *text += "    end_worker();\n";
    }
    *text += "    SAY(\"-- end\\n\");\n}\n";
}

fn operate(text: &mut String, program: &Program, operation: &Operation) {
    match operation {
        Operation::Open { handle, library, mode, by_name } => {
            let Some(library) = program.library(*library) else { return };
            let file = if *by_name { library.file() } else { format!("./{}", library.path()) };
            let flags = flags(mode);
            let _ = writeln!(
                text,
                "    SAY(\"open {handle} {file} {flags}\\n\");\n    \
                 handle[{handle}] = dlopen(\"{file}\", {flags} | kept());\n    \
                 if (!handle[{handle}]) tell(\"open\");\n    \
                 else for (int i = 0; i < 4; i++)\n        \
                 if (i != {handle} && handle[i] == handle[{handle}]) SAY(\"as %d\\n\", i);"
            );
            whole(text, program, library.id, &format!("handle[{handle}]"));
        }
        Operation::Close { handle } => {
            let _ = writeln!(
                text,
                "    if (handle[{handle}]) {{\n        \
                 SAY(\"close {handle}: %d\\n\", dlclose(handle[{handle}]));\n        \
                 handle[{handle}] = 0;\n    }}"
            );
        }
        Operation::OpenProgram { handle } => {
            let _ = writeln!(
                text,
                "    handle[{handle}] = dlopen(0, RTLD_LAZY);\n    \
                 SAY(\"open {handle} program: %d\\n\", handle[{handle}] != 0);"
            );
        }
        Operation::Show { handle } => show_all(text, program, *handle),
        Operation::Fork { handle } => {
            *text += "    int child = fork(), status = -1;\n    if (!child) {\n";
            show_all(text, program, *handle);
            *text += "    _exit(3);\n    }\n    waitpid(child, &status, 0);\n    \
                      SAY(\"child: %d\\n\", status >> 8);\n";
        }
        Operation::Map { handle } => {
            let _ = writeln!(text, "    if (handle[{handle}]) map(handle[{handle}]);");
        }
        Operation::List => *text += "    list();\n",
        Operation::Look { place, name, version } => match place {
            LookupFrom::Default => look(text, "RTLD_DEFAULT", "RTLD_DEFAULT", *name, *version),
            LookupFrom::Next => look(text, "RTLD_NEXT", "RTLD_NEXT", *name, *version),
            LookupFrom::Handle(handle) => {
                let _ = writeln!(text, "    if (handle[{handle}])");
                let what = format!("handle {handle}");
                look(text, &what, &format!("handle[{handle}]"), *name, *version);
            }
        },
    }
}

/// Calls the `show` of every library that the handle finds.
fn show_all(text: &mut String, program: &Program, handle: usize) {
    for library in &program.libraries {
        let stem = library.stem();
        let _ = writeln!(
            text,
            "    if (handle[{handle}]) {{\n        \
             void *show = dlsym(handle[{handle}], \"show_{stem}\");\n        \
             if (show) ((void (*)(void))show)();\n    }}"
        );
    }
}
