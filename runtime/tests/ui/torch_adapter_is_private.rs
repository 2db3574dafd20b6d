//! What makes one libtorch serve every interpreter has no safe use from outside.

use hydrozoa::torch::Adapter;
use hydrozoa::torch::Member;
use hydrozoa::torch::ThreadState;

fn main() {}
