//! Small shared objects, made field by field, so that any of them can be wrong.
//!
//! ```text
//!  file 0      ELF header, program headers, tables        read-only segment at address 0
//!  file 0x1000 dynamic section, then (0x400 on) data      writable segment at DYNAMIC
//! ```

/// Address of the dynamic section and of the writable segment.
pub const DYNAMIC: u64 = 0x10000;
/// Address of the data.
pub const DATA: u64 = DYNAMIC + 0x400;

/// The parts of an object.
#[derive(Clone, Debug, Default)]
pub struct Forge {
    /// Behind the null symbol.
    pub symbols: Vec<Symbol>,
    /// DT_RELA: offset, symbol, type, addend.
    pub rela: Vec<(u64, u32, u32, i64)>,
    /// DT_JMPREL, laid over DT_RELA: how many bytes behind its start, and how many bytes.
    pub jump: Option<(u64, u64)>,
    /// DT_RELR.
    pub relr: Vec<u64>,
    /// PT_TLS over the first bytes of the data: size in the file, in memory.
    pub tls: Option<(u64, u64)>,
    /// The words of DT_GNU_HASH. If none, a correct table is made.
    pub gnu_hash: Option<Vec<u32>>,
    /// The object has DT_HASH instead of DT_GNU_HASH.
    pub sysv_hash: bool,
    /// The writable bytes behind the dynamic section.
    pub data: Vec<u8>,
    /// DT_TEXTREL: relocations may write to the read-only segment.
    pub text_relocations: bool,
    /// The number of bytes in memory beyond those in the file.
    pub zeroes: u64,
}

/// A dynamic symbol.
#[derive(Clone, Debug)]
pub struct Symbol {
    pub name: &'static str,
    /// st_info: binding and type.
    pub info: u8,
    /// st_shndx; 0 is undefined.
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

const DT_PLTRELSZ: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRSZ: u64 = 10;
const DT_TEXTREL: u64 = 22;
const DT_JMPREL: u64 = 23;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

const TABLES: usize = 0x200;
const WRITABLE: usize = 0x1000;

impl Forge {
    /// The object's bytes.
    pub fn build(&self) -> Vec<u8> {
        let mut file = vec![0; TABLES];
        let mut place = |bytes: Vec<u8>| {
            let at = file.len() as u64;
            let size = bytes.len() as u64;
            file.extend(bytes);
            file.resize(file.len().next_multiple_of(8), 0);
            (at, size)
        };
        let mut strings = vec![0];
        let mut symbols = vec![0; 24];
        for symbol in &self.symbols {
            symbols.extend((strings.len() as u32).to_le_bytes());
            symbols.extend([symbol.info, 0]);
            symbols.extend(symbol.section.to_le_bytes());
            symbols.extend(symbol.value.to_le_bytes());
            symbols.extend(symbol.size.to_le_bytes());
            strings.extend(symbol.name.as_bytes());
            strings.push(0);
        }
        let rela = self.rela.iter().flat_map(|&(offset, symbol, kind, addend)| {
            let info = u64::from(symbol) << 32 | u64::from(kind);
            [offset, info, addend as u64].into_iter().flat_map(u64::to_le_bytes)
        });
        let (hash_tag, hash) = match (self.sysv_hash, &self.gnu_hash) {
            (true, _) => (DT_HASH, self.sysv_table()),
            (false, Some(table)) => (DT_GNU_HASH, table.clone()),
            (false, None) => (DT_GNU_HASH, self.gnu_table()),
        };
        let (strings, strings_size) = place(strings);
        let (rela, rela_size) = place(rela.collect());
        let (relr, relr_size) = place(words(&self.relr));
        let (hash, _) = place(hash.into_iter().flat_map(u32::to_le_bytes).collect());
        // Last, so that a symbol beyond it is beyond the segment.
        let (symbols, _) = place(symbols);
        let mut dynamic = vec![
            (DT_STRTAB, strings),
            (DT_STRSZ, strings_size),
            (DT_SYMTAB, symbols),
            (hash_tag, hash),
            (DT_RELA, rela),
            (DT_RELASZ, rela_size),
        ];
        if let Some((behind, size)) = self.jump {
            dynamic.extend([(DT_JMPREL, rela + behind), (DT_PLTRELSZ, size)]);
        }
        if relr_size > 0 {
            dynamic.extend([(DT_RELR, relr), (DT_RELRSZ, relr_size)]);
        }
        if self.text_relocations {
            dynamic.push((DT_TEXTREL, 0));
        }
        let dynamic: Vec<u64> =
            dynamic.into_iter().chain([(0, 0)]).flat_map(<[u64; 2]>::from).collect();
        let tables_end = file.len() as u64;
        assert!(tables_end <= WRITABLE as u64, "the tables have one page");
        file.resize(WRITABLE, 0);
        file.extend(words(&dynamic));
        file.resize(WRITABLE + (DATA - DYNAMIC) as usize, 0);
        file.extend(&self.data);
        let writable = (file.len() - WRITABLE) as u64;
        // Type, flags, offset, address, size in the file, in memory, alignment.
        let mut headers = vec![
            [1, 4, 0, 0, tables_end, tables_end, 0x1000],
            [1, 6, WRITABLE as u64, DYNAMIC, writable, writable + self.zeroes, 0x1000],
            [2, 6, WRITABLE as u64, DYNAMIC, dynamic.len() as u64 * 8, dynamic.len() as u64 * 8, 8],
        ];
        if let Some((in_file, in_memory)) = self.tls {
            let offset = WRITABLE as u64 + DATA - DYNAMIC;
            headers.push([7, 4, offset, DATA, in_file, in_memory, 16]);
        }
        file[..64].copy_from_slice(&header(headers.len() as u16));
        for (index, [kind, flags, offset, address, in_file, in_memory, align]) in
            headers.into_iter().enumerate()
        {
            let bytes =
                words(&[kind | flags << 32, offset, address, address, in_file, in_memory, align]);
            file[64 + index * 56..64 + (index + 1) * 56].copy_from_slice(&bytes);
        }
        file
    }

    /// One bucket; a filter that lets all names pass.
    fn gnu_table(&self) -> Vec<u32> {
        let count = self.symbols.len();
        let chain = self.symbols.iter().enumerate().map(|(index, symbol)| {
            let hash = symbol
                .name
                .bytes()
                .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
            hash & !1 | u32::from(index + 1 == count)
        });
        let head = [1, 1, 1, 0, u32::MAX, u32::MAX, u32::from(count > 0)];
        head.into_iter().chain(chain).collect()
    }

    /// One bucket, whose chain goes through all symbols.
    fn sysv_table(&self) -> Vec<u32> {
        let count = self.symbols.len() as u32;
        let chain =
            (0..=count).map(|index| if index == 0 || index == count { 0 } else { index + 1 });
        [1, count + 1, u32::from(count > 0)].into_iter().chain(chain).collect()
    }
}

fn header(count: u16) -> [u8; 64] {
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // ET_DYN, for the machine that the tests run on; e_version.
    header[16] = 3;
    header[18] = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    header[20] = 1;
    header[32] = 64;
    header[52] = 64;
    header[54] = 56;
    header[56..58].copy_from_slice(&count.to_le_bytes());
    header
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
