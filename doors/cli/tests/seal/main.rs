//! `hydrozoa seal`, and the applications that it makes.

mod application;
mod damage;
mod finder;
mod looks;
mod machine;
mod python;
