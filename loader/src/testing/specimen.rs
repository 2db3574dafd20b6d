//! Images of untrusted bytes: each phase up to relocation, and nothing executed.
//!
//! Fuzzing and its regression tests use specimens. Other images live as long as the process. A specimen
//! frees everything at its end, so that millions can follow one another.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;

use crate::bind::binding::Binding;
use crate::bind::plan::{Binder, CLibraryNames, Interposed, Plan, Provider};
use crate::bind::relocate::{self, Definitions};
use crate::bind::scope::{Order, Scope};
use crate::error::{Error, Result};
use crate::id::DomainId;
use crate::image::provided::Kept;
use crate::image::relocations::relr_addresses;
use crate::image::symbols::Name;
use crate::image::{Image, Segment};
use crate::load::late_calls;
use crate::replica::Replica;
use crate::replica::map;
use crate::replica::words::Words;
use crate::sys::file::{self, FileId};
use crate::sys::{page_down, page_up};
use crate::system::SYSTEM;
use crate::tls::{Block, Placed};

/// An image that goes away again, with its bytes.
///
/// Invariant: nothing that outlives it borrows from its bytes.
#[derive(Debug)]
pub struct Specimen {
    image: ManuallyDrop<Arc<Image>>,
    bytes: *mut [u8],
}

/// The parser's view of a specimen, for comparison with other parsers. Addresses are those of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Address, size in memory, offset, size in the file, of each PT_LOAD.
    pub segments: Vec<[u64; 4]>,
    /// DT_SONAME.
    pub soname: Option<String>,
    /// DT_NEEDED, in order.
    pub needed: Vec<String>,
    /// Offset, type, symbol index and addend of each record of DT_RELA and DT_JMPREL.
    pub relocations: Vec<(u64, u32, u32, i64)>,
    /// The addresses that DT_RELR names.
    pub relative: Vec<u64>,
    /// Names of the symbols that the hash table reaches, by index.
    pub symbols: Vec<Option<Vec<u8>>>,
}

/// The rules of binding to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The rules of a domain beside the program. Missing functions are looked up when they are called.
    Domain,
    /// glibc's rules, as in a domain that extends the program. Missing functions are errors.
    Program,
}

/// The binding of one symbol that relocations name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The reference's name.
    pub name: Vec<u8>,
    /// The name of the specimen's own symbol that it is bound to; none if something else, or
    /// nothing, answers it.
    pub own: Option<Vec<u8>>,
}

/// A segment before and after relocation: a writable one, or any if text relocations are announced.
#[derive(Clone, Debug)]
pub struct Written {
    /// Address of its first page, as in the file.
    pub address: u64,
    /// Its pages as mapped.
    pub before: Vec<u8>,
    /// Its pages when all relocations but those by resolvers are applied.
    pub after: Vec<u8>,
}

/// A specimen that was mapped and relocated.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The offset to add to the file's addresses.
    pub bias: u64,
    /// The segments that relocation may write to.
    pub written: Vec<Written>,
    /// Whether every relocation was applied, or why the first that was not could not be.
    pub result: std::result::Result<(), String>,
}

/// The name of every specimen in errors.
const NAME: &str = "specimen";

impl Specimen {
    /// Parses and validates `bytes`. The specimen keeps a copy of them.
    ///
    /// # Errors
    /// As for any file that is opened.
    pub fn parse(bytes: &[u8]) -> Result<Specimen> {
        // Parsing reads the bytes alone; only mapping needs a file.
        Specimen::of(bytes, File::open("/dev/null"))
    }

    /// As [`Specimen::parse`], with a memory file behind it, which [`Specimen::relocate`] maps.
    ///
    /// # Errors
    /// As for any file that is opened.
    pub fn in_memory(bytes: &[u8]) -> Result<Specimen> {
        Specimen::of(bytes, file::sealed(NAME, bytes))
    }

    fn of(bytes: &[u8], file: std::io::Result<File>) -> Result<Specimen> {
        let failed = |source| Error::Io { object: NAME.into(), action: "open", source };
        let file = file.map_err(failed)?;
        let file_id = FileId::of(&file).map_err(failed)?;
        let bytes: *mut [u8] = Box::into_raw(bytes.into());
        // SAFETY: the allocation lives until `free` below or `drop` takes it back.
        let parsed = Image::of_bytes(
            PathBuf::from(NAME),
            Some(Kept::File(Arc::new(file))),
            file_id,
            unsafe { &*bytes },
        );
        match parsed {
            Ok(image) => Ok(Specimen { image: ManuallyDrop::new(Arc::new(image)), bytes }),
            Err(error) => {
                // SAFETY: made by `into_raw` above, and an error borrows nothing.
                drop(unsafe { Box::from_raw(bytes) });
                Err(error)
            }
        }
    }

    /// Bytes of address space that a replica would take.
    pub fn span(&self) -> usize {
        self.image.span
    }

    /// Asks the parser everything that later phases may ask.
    pub fn read(&self) -> Reading {
        let Image { dynamic, symbols, first, segments, .. } = &**self.image;
        Reading {
            segments: segments.iter().map(|segment| described(segment, *first)).collect(),
            soname: dynamic.soname.map(str::to_owned),
            needed: dynamic.needed.iter().map(|&name| name.to_owned()).collect(),
            relocations: dynamic
                .rela()
                .map(|rela| (rela.offset, rela.kind, rela.symbol, rela.addend))
                .collect(),
            relative: relr_addresses(dynamic.relative).collect(),
            symbols: (0..symbols.count())
                .map(|index| {
                    symbols
                        .symbol(index)
                        .and_then(|symbol| symbols.name(&symbol))
                        .map(<[u8]>::to_vec)
                })
                .collect(),
        }
    }

    /// Whether the table finds `name`, in all the ways in which names are looked up.
    pub fn look_up(&self, name: &[u8]) -> bool {
        let symbols = &self.image.symbols;
        let text = Name::new(name);
        let newest = symbols.lookup(text, None, true);
        let oldest = symbols.lookup(text, None, false);
        let versioned = newest.and_then(|(index, _)| {
            let wanted = symbols.versions.wanted(index);
            symbols.lookup(text, wanted, false)
        });
        if let Some((_, symbol)) = newest {
            symbols.nearest(symbol.value);
        }
        newest.or(oldest).or(versioned).is_some()
    }

    /// Binds all symbols that its relocations name, in a scope of itself and the process's system
    /// objects.
    ///
    /// # Errors
    /// As for any load.
    pub fn plan(&self, rules: Rules) -> Result<Vec<Bound>> {
        let plan = self.planned(rules)?;
        plan.static_tls(&self.image).count();
        let name = |symbol| self.image.symbols.name(&symbol).unwrap_or_default().to_vec();
        Ok(plan
            .bindings()
            .map(|(index, binding)| Bound {
                name: self.image.symbols.symbol(index).map(name).unwrap_or_default(),
                own: match binding {
                    Binding::Image { symbol, .. } => Some(name(*symbol)),
                    _ => None,
                },
            })
            .collect())
    }

    fn planned(&self, rules: Rules) -> Result<Arc<Plan>> {
        let system = SYSTEM.global();
        let image = Arc::clone(&self.image);
        let scope = Scope {
            uniques: if image.defines_uniques() { vec![image.clone()] } else { Vec::new() },
            local: vec![image.clone()],
            program: system.len(),
            system,
            order: match rules {
                Rules::Domain => Order::Domain,
                Rules::Program => Order::Program,
            },
            ..Scope::default()
        };
        let names = INTERPOSED.iter().map(|&name| name.to_owned()).collect();
        let interposed =
            Interposed { names, references: [].into(), c_library: CLibraryNames::default() };
        Binder::new(&scope, Arc::new(interposed), rules == Rules::Program)
            .resolve(&image)
            .map(Arc::new)
    }

    /// Maps the specimen, applies its plan, and protects what is to be read-only: all but the
    /// resolvers' answers. Only for a specimen [`in_memory`](Specimen::in_memory).
    ///
    /// # Errors
    /// As for any load, up to mapping; a relocation that cannot be applied is in the outcome.
    pub fn relocate(&self, rules: Rules) -> Result<Outcome> {
        let plan = self.planned(rules)?;
        let image = &*self.image;
        let memory = map::map(image, &plan.prepared.words, None)?;
        let tls =
            image.tls.map(|_| Placed::assumed(block(plan.static_tls(image).next().is_some())));
        let late = late_calls::thunks(NO_DOMAIN, image, &plan.missing)?;
        let replica = Replica::new(image, NO_DOMAIN, memory, tls, Vec::new(), late);
        let pages = |segment: &Segment| {
            let end = page_up(segment.address + segment.memory_size).expect("validated");
            page_down(segment.address)..end
        };
        let contents = |base: usize| -> Vec<(u64, Vec<u8>)> {
            let text = image.dynamic.text_relocations;
            let writable = image.segments.iter().filter(|segment| segment.write || text);
            writable
                .map(|segment| {
                    let pages = pages(segment);
                    let start = base + pages.start;
                    // SAFETY: the pages of a segment are mapped and readable; no other thread knows of
                    // them.
                    let bytes =
                        unsafe { std::slice::from_raw_parts(start as *const u8, pages.len()) };
                    ((image.first + pages.start) as u64, bytes.to_vec())
                })
                .collect()
        };
        // As mapping leaves it to a plan that knows no word.
        let before = contents(map::map(image, &Words::default(), None)?.base());
        let own = |provider: &Provider| (provider.image == image.id).then_some(&replica);
        let definitions = Definitions {
            replicas: plan.images.iter().filter_map(own).collect(),
            interpositions: &[INTERPOSITION; INTERPOSED.len()],
            tls_get_addr: None,
        };
        let result = relocate::relocate(&replica, &plan, &definitions);
        let written = before
            .into_iter()
            .zip(contents(replica.base))
            .map(|((address, before), (_, after))| Written { address, before, after })
            .collect();
        map::protect_text(image, &replica.memory)?;
        map::protect_relro(image, &replica.memory)?;
        Ok(Outcome {
            bias: replica.bias as u64,
            written,
            result: result.map(drop).map_err(|error| error.to_string()),
        })
    }
}

impl Drop for Specimen {
    fn drop(&mut self) {
        // SAFETY: neither is used again. Plans and scopes that borrow from the bytes are the
        // image's own, or went with the calls that made them.
        unsafe {
            ManuallyDrop::drop(&mut self.image);
            drop(Box::from_raw(self.bytes));
        }
    }
}

/// Names whose references are answered by a table, as `dl*` functions are in every domain.
const INTERPOSED: [&str; 3] = ["__tls_get_addr", "dlopen", "malloc"];
/// The answer to these names. Nothing calls it.
const INTERPOSITION: usize = 0x1000;
/// The domain that replicas of specimens are in: none that is ever made.
const NO_DOMAIN: DomainId = DomainId(u32::MAX);

/// A block such as [`crate::tls::place`] gives. Its registrations stay, so millions of specimens
/// may not ask it.
fn block(at_one_offset: bool) -> Block {
    if at_one_offset {
        Block::Arena { offset: -0x1000 }
    } else {
        Block::Lazy { index: 7, slot: None }
    }
}

fn described(segment: &Segment, first: usize) -> [u64; 4] {
    [
        (first + segment.address) as u64,
        segment.memory_size as u64,
        segment.offset,
        segment.file_size as u64,
    ]
}
