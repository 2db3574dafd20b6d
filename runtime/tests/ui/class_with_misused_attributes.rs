//! Misuses that the attribute macros refuse, each with words of its own.

struct Counter(i64);

#[hydrozoa::class]
struct Plain;

#[hydrozoa::class]
impl Counter {
    fn add(&mut self, n: i64) {
        self.0 += n;
    }
}

struct Free;

#[hydrozoa::class]
impl Free {
    fn parse(text: String) -> Self {
        Free
    }
}

struct Sets;

#[hydrozoa::class]
impl Sets {
    #[setter]
    fn set_value(&self, value: i64) {}
}

struct Twice;

#[hydrozoa::class]
impl Twice {
    #[new]
    #[staticmethod]
    fn new() -> Self {
        Twice
    }
}

#[hydrozoa::function]
#[signature = "(x, y=1)"]
fn scale(x: f64, by: f64) -> f64 {
    x * by
}

#[hydrozoa::function]
fn borrows(text: &str) -> usize {
    text.len()
}

#[hydrozoa::function]
fn generic<T>(value: T) {}

#[hydrozoa::function]
async fn later() {}

#[hydrozoa::function(title = "x")]
fn titled() {}

fn main() {}
