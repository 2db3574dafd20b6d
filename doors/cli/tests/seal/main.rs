//! `hydrozoa seal`, and the applications that it makes.

mod application;
mod cpython;
mod damage;
mod finder;
mod looks;
mod machine;
mod memory;
mod python;
