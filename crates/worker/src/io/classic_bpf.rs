//! Classic BPF: instructions of programs that the kernel runs on frames (`linux/bpf_common.h`), and blocks of them.
//!
//! A block is a list of instructions that is entered at its first one. Blocks are put one behind the other or into each
//! other; no jump leaves a block but behind its last instruction, so none is longer than a comparison's eight bits.

/// One instruction, as the kernel has it (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// Instructions to skip where a comparison holds.
    pub jt: u8,
    /// Instructions to skip where it does not.
    pub jf: u8,
    /// A constant or an offset.
    pub k: u32,
}

/// The most instructions that the kernel takes (`BPF_MAXINSNS`).
pub const INSTRUCTIONS_MAX: usize = 4_096;

/// Operation codes of what is used here. `A` and `X` are the registers.
pub(crate) mod code {
    /// A = the word, half word or octet of the packet at `k`.
    pub const LOAD_WORD: u16 = 0x20;
    pub const LOAD_HALF: u16 = 0x28;
    pub const LOAD_OCTET: u16 = 0x30;
    /// The same at X + `k`.
    pub const LOAD_WORD_X: u16 = 0x40;
    pub const LOAD_HALF_X: u16 = 0x48;
    pub const LOAD_OCTET_X: u16 = 0x50;
    /// A = `k`; A = word `k` of memory.
    pub const SET: u16 = 0x00;
    pub const RECALL: u16 = 0x60;
    /// X = `k`; X = the octets of the IPv4 header at `k`; X = word `k` of memory.
    pub const SET_X: u16 = 0x01;
    pub const HEADER_X: u16 = 0xb1;
    pub const RECALL_X: u16 = 0x61;
    /// Word `k` of memory = A.
    pub const STORE: u16 = 0x02;
    pub const ADD: u16 = 0x04;
    pub const SUBTRACT: u16 = 0x14;
    pub const MULTIPLY: u16 = 0x24;
    pub const AND: u16 = 0x54;
    pub const SHIFT_RIGHT: u16 = 0x74;
    pub const SHIFT_RIGHT_X: u16 = 0x7c;
    pub const MODULO: u16 = 0x94;
    pub const XOR_X: u16 = 0xac;
    pub const TO_X: u16 = 0x07;
    /// Skip `k` instructions.
    pub const JUMP: u16 = 0x05;
    /// Skip as `jt` and `jf` have it, where A is `k`, is at least `k`, or has one of the bits of `k`.
    pub const IF_EQUAL: u16 = 0x15;
    pub const IF_AT_LEAST: u16 = 0x35;
    pub const IF_BITS: u16 = 0x45;
    /// Give `k`; give A.
    pub const RETURN: u16 = 0x06;
    pub const RETURN_A: u16 = 0x16;
    /// Offset of the EtherType that follows a frame's tag, for [`LOAD_HALF`] and [`LOAD_WORD`].
    pub const PROTOCOL: u32 = 0xffff_f000;
    /// Offset of the tag that the kernel has taken out of a frame; 0 without one.
    pub const VLAN_TAG: u32 = 0xffff_f000 + 44;
}

/// A block.
pub(crate) type Block = Vec<Instruction>;

/// An instruction that is no comparison.
pub(crate) const fn step(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Runs `block` where the comparison of A with `k` holds.
pub(crate) fn when(comparison: u16, k: u32, block: Block) -> Block {
    let compare = Instruction {
        code: comparison,
        jt: 1,
        jf: 0,
        k,
    };
    let skip = step(code::JUMP, block.len() as u32);
    [compare, skip].into_iter().chain(block).collect()
}

/// Runs `block` where A is one of `values`; it does not come back.
pub(crate) fn when_any(values: impl IntoIterator<Item = u32>, block: &Block) -> Block {
    let one = |value| when(code::IF_EQUAL, value, block.clone());
    values.into_iter().flat_map(one).collect()
}
