//! A runtime of CUDA that is loaded once, as libcudart is, and what interpreters load over it.

use crate::pythons::builders;
use hydrozoa::{Builder, Session};
use hydrozoa_testkit::libraries::Workshop;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Long enough for the end of an interpreter on a busy machine.
pub const END: Duration = Duration::from_secs(60);

pub struct Device {
    _shop: Workshop,
    runtime: PathBuf,
    library: PathBuf,
}

/// A folder with a driver, for the environment of a process.
pub fn driver(name: &str) -> (Workshop, OsString) {
    let driver = Workshop::new(&format!("{name}-driver"));
    driver.build("libcuda.so.1", "int cuInit(unsigned flags) { return 100; }", &[]);
    let folder = driver.path("").into_os_string();
    (driver, folder)
}

/// Does a test's work in a process of its own that has a driver. `device` has a library that was compiled from `source`.
macro_rules! with_device {
    ($name:literal, $source:literal, |$device:ident| $work:expr) => {
        let (_driver, folder) = crate::device::driver($name);
        hydrozoa_testkit::alone::alone_with(
            hydrozoa_testkit::alone::PATIENCE,
            &[("LD_LIBRARY_PATH", folder)],
            || {
                let $device = &crate::device::Device::new($name, include_str!($source));
                $work
            },
        );
    };
}
pub(crate) use with_device;

impl Device {
    pub fn new(name: &str, source: &str) -> Self {
        let shop = Workshop::new(name);
        let runtime = shop.build("libcudart.so.13", include_str!("runtime.c"), &["-pthread"]);
        let over = ["-L{dir}", "-l:libcudart.so.13", "-Wl,-rpath,{dir}"];
        let library = shop.build("libdevice.so", source, &over);
        Self { _shop: shop, runtime, library }
    }

    /// Pools whose interpreters can be told apart.
    pub fn pools(&self) -> impl Iterator<Item = Builder> {
        builders(3)
    }

    /// A number that the interpreter's replica of the library gives, such as `launch(0, 1)`.
    pub fn ask(&self, session: &Session, call: &str) -> i64 {
        self.call(session, &format!("ctypes.CDLL({:?}).{call}", self.library))
    }

    /// A number that the runtime gives.
    pub fn runtime(&self, session: &Session, call: &str) -> i64 {
        self.call(session, &format!("ctypes.CDLL({:?}).{call}", self.runtime))
    }

    /// `library.function(arguments)`, whose arguments are passed as words.
    fn call(&self, session: &Session, call: &str) -> i64 {
        let (function, arguments) = call.split_at(call.rfind('(').unwrap());
        let is_long = LONG.iter().any(|name| function.ends_with(&format!(".{name}")));
        let result = if is_long { "c_long" } else { "c_int" };
        let code = format!(
            "import ctypes\n\
             def words(*given):\n    return [ctypes.c_long(one) if isinstance(one, int) else one for one in given]\n\
             function = {function}\n\
             function.restype = ctypes.{result}\n\
             answer = function(*words{arguments})"
        );
        let names = session.run(&code, "device.py").unwrap();
        names.getattr("answer").unwrap().extract().unwrap()
    }
}

/// Functions that return a `long`.
const LONG: [&str; 7] =
    ["take", "take_later", "take_rows", "take_box", "unused", "total", "address_of_tag"];
