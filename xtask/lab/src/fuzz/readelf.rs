//! Compares the parser's reading with that of readelf (binutils), over a corpus.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_loader::testing::specimen::{Reading, Specimen};

/// The result for a corpus.
#[derive(Default)]
pub(super) struct Readings {
    /// Inputs that the loader accepts as images.
    pub accepted: usize,
    /// Images that readelf reads without a warning.
    pub compared: usize,
    pub differences: Vec<String>,
}

/// Reads every input of `corpus` in both ways.
pub(super) fn compare(corpus: &Path) -> Result<Readings> {
    let mut readings = Readings::default();
    let scratch = tempfile::tempdir()?;
    let copy = scratch.path().join("input");
    for entry in std::fs::read_dir(corpus)? {
        let input = entry?.path();
        let mut bytes = std::fs::read(&input)?;
        if Specimen::parse(&bytes).is_err() {
            continue;
        }
        readings.accepted += 1;
        // If there are sections, readelf takes names and tables from them. Loaders do not.
        bytes[SECTION_HEADERS].fill(0);
        bytes[SECTION_COUNTS].fill(0);
        // Tables may lie there. Both sides read the bytes as they are now.
        let Ok(specimen) = Specimen::parse(&bytes) else { continue };
        std::fs::write(&copy, &bytes)?;
        let Some(other) = read(&copy)? else { continue };
        readings.compared += 1;
        let ours = said(&specimen.read());
        if let Some((ours, other)) = ours.iter().zip(&other).find(|(ours, other)| ours != other) {
            readings.differences.push(format!(
                "{}: the loader reads {ours:x?}, readelf {other:x?}",
                input.display()
            ));
        }
    }
    Ok(readings)
}

/// e_shoff; e_shentsize, e_shnum, e_shstrndx.
const SECTION_HEADERS: Range<usize> = 40..48;
const SECTION_COUNTS: Range<usize> = 58..64;

/// One part of a reading: its title, and its numbers and names in order.
type Part = (&'static str, Vec<Vec<u64>>, Vec<String>);

fn said(reading: &Reading) -> [Part; 4] {
    let relocations = reading.relocations.iter();
    let relocations = relocations
        .map(|&(offset, kind, symbol, _)| vec![offset, u64::from(symbol) << 32 | u64::from(kind)]);
    [
        ("PT_LOAD", reading.segments.iter().map(|segment| segment.to_vec()).collect(), vec![]),
        ("DT_RELA", relocations.collect(), vec![]),
        ("DT_RELR", reading.relative.iter().map(|&address| vec![address]).collect(), vec![]),
        ("names", vec![], names(&reading.needed, reading.soname.as_deref())),
    ]
}

fn names(needed: &[String], soname: Option<&str>) -> Vec<String> {
    // readelf prints an empty name like a missing one.
    let all = needed.iter().map(String::as_str).chain(soname).filter(|name| !name.is_empty());
    all.map(str::to_owned).collect()
}

/// Whether DT_JMPREL shares records with DT_RELA. readelf prints such records twice; the loader applies them once, as
/// glibc does.
fn shares_records(text: &str) -> bool {
    let mut tables: Vec<Range<u64>> = Vec::new();
    for line in text.lines() {
        // `'RELA' relocation section at offset 0x4f8 contains 192 bytes:`
        let Some((_, rest)) = line.split_once("' relocation section at offset 0x") else {
            continue;
        };
        let Some((start, length)) = rest.split_once(" contains ") else { continue };
        let length = length.trim_end_matches(" bytes:").parse::<u64>();
        if let (Ok(start), Ok(length)) = (u64::from_str_radix(start, 16), length) {
            let end = start.saturating_add(length);
            if tables.iter().any(|known| known.start < end && start < known.end) {
                return true;
            }
            tables.push(start..end);
        }
    }
    false
}

/// Whether readelf chose one of several entries, or assumed address 0 for a table without an address.
fn is_guess(text: &str) -> bool {
    let mut tags = HashSet::new();
    text.lines().any(|line| {
        // ` 0x000000000000000e (SONAME)             Library soname: [main.so]`
        let entry = line.strip_prefix(" 0x").and_then(|rest| rest.split_once(' '));
        let again =
            entry.is_some_and(|(tag, rest)| !rest.contains("(NEEDED)") && !tags.insert(tag));
        again || line.contains(" relocation section at offset 0 ")
    })
}

/// readelf's reading; `None` if readelf warns, because its output is then not reliable.
fn read(input: &Path) -> Result<Option<[Part; 4]>> {
    let output = Command::new("readelf")
        .args(["--wide", "--segments", "--dynamic", "--relocs", "--use-dynamic"])
        .arg(input)
        .env("LC_ALL", "C")
        .output()
        .context("starting readelf (install binutils)")?;
    if !output.status.success() || !output.stderr.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if is_guess(&text) || shares_records(&text) {
        return Ok(None);
    }
    let mut loads = Vec::new();
    let mut relocations = Vec::new();
    let mut relative = Vec::new();
    let mut needed = Vec::new();
    let mut soname = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16);
        let digits = |word: &str| word.len() == 16 && number(word).is_ok();
        match *words.as_slice() {
            // Offset, virtual and physical address, size in the file, in memory.
            ["LOAD", offset, address, _, file, memory, ..] => {
                let numbers = [address, memory, offset, file].map(number);
                loads.push(numbers.into_iter().collect::<Result<Vec<_>, _>>()?);
            }
            [address] if digits(address) => relative.push(vec![number(address)?]),
            [offset, info, kind, ..] if digits(offset) && digits(info) && !kind.is_empty() => {
                relocations.push(vec![number(offset)?, number(info)?]);
            }
            _ => {}
        }
        let bracketed = |what: &str| Some(line.split_once(what)?.1.strip_suffix(']')?.to_owned());
        needed.extend(bracketed("(NEEDED)             Shared library: ["));
        soname = bracketed("(SONAME)             Library soname: [").or(soname);
    }
    ensure!(!loads.is_empty(), "{}: readelf prints no PT_LOAD", input.display());
    Ok(Some([
        ("PT_LOAD", loads, vec![]),
        ("DT_RELA", relocations, vec![]),
        ("DT_RELR", relative, vec![]),
        ("names", vec![], names(&needed, soname.as_deref())),
    ]))
}
