//! The two programs in eBPF, and how the one that chooses is made of classic BPF.
//!
//! What classic BPF reads is a frame from its layer 3 header on, behind one VLAN tag that the kernel has taken out. An
//! XDP program sees the frame as it is: it finds both first. Of loads the verifier wants to know that they are within
//! the frame; as in classic BPF, one that is not ends the program with 0.

use std::os::fd::RawFd;

use super::super::sockets::FilterInstruction;

/// An instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// The register that is written, and above it the one that is read.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn step(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction {
        code,
        registers: to | from << 4,
        offset,
        value,
    }
}

/// Operation codes (`linux/bpf.h`, `linux/bpf_common.h`); of 32 bits where nothing else is said.
mod code {
    pub const LOAD_DESCRIPTOR: u8 = 0x18;
    pub const LOAD_WORD: u8 = 0x61;
    pub const LOAD_HALF: u8 = 0x69;
    pub const LOAD_OCTET: u8 = 0x71;
    pub const STORE_WORD: u8 = 0x63;
    pub const SET: u8 = 0xb4;
    pub const COPY: u8 = 0xbc;
    pub const SHIFT_LEFT: u8 = 0x64;
    pub const AND: u8 = 0x54;
    pub const FROM_NETWORK: u8 = 0xdc;
    /// Of 64 bits.
    pub const COPY_LONG: u8 = 0xbf;
    pub const ADD_LONG: u8 = 0x07;
    pub const ADD_REGISTER_LONG: u8 = 0x0f;
    pub const AND_LONG: u8 = 0x57;
    pub const IF_BEYOND: u8 = 0x2d;
    pub const JUMP: u8 = 0x05;
    pub const IF_EQUAL: u8 = 0x16;
    pub const IF_AT_LEAST: u8 = 0x36;
    pub const IF_BITS: u8 = 0x46;
    pub const IF_DIFFERENT: u8 = 0x56;
    pub const CALL: u8 = 0x85;
    pub const EXIT: u8 = 0x95;
}

/// Operation codes of classic BPF that are understood (`linux/bpf_common.h`). Calculations with `k` have the same in
/// eBPF.
mod classic {
    pub const WORD: u16 = 0x20;
    pub const HALF: u16 = 0x28;
    pub const OCTET: u16 = 0x30;
    pub const WORD_X: u16 = 0x40;
    pub const HALF_X: u16 = 0x48;
    pub const OCTET_X: u16 = 0x50;
    pub const SET: u16 = 0x00;
    pub const RECALL: u16 = 0x60;
    pub const SET_X: u16 = 0x01;
    pub const HEADER_X: u16 = 0xb1;
    pub const RECALL_X: u16 = 0x61;
    pub const STORE: u16 = 0x02;
    /// Add, subtract, multiply, and, shift right, remainder.
    pub const WITH_CONSTANT: [u16; 6] = [0x04, 0x14, 0x24, 0x54, 0x74, 0x94];
    /// Shift right, exclusive or.
    pub const WITH_X: [u16; 2] = [0x7c, 0xac];
    pub const TO_X: u16 = 0x07;
    pub const JUMP: u16 = 0x05;
    pub const IF_EQUAL: u16 = 0x15;
    pub const IF_AT_LEAST: u16 = 0x35;
    pub const IF_BITS: u16 = 0x45;
    pub const RETURN: u16 = 0x06;
    pub const RETURN_A: u16 = 0x16;
    /// Offsets of what is about the frame and not in it: the EtherType behind the tag, the tag.
    pub const PROTOCOL: u32 = 0xffff_f000;
    pub const VLAN_TAG: u32 = 0xffff_f000 + 44;
    /// Words of memory.
    pub const MEMORY: u32 = 16;
}

/// Registers. The first five do not outlive a call.
const RESULT: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const THIRD: u8 = 3;
/// Where a load ends.
const END: u8 = SECOND;
const TAG: u8 = THIRD;
const PROTOCOL: u8 = 4;
const FRAME_END: u8 = 5;
const CONTEXT: u8 = 6;
const A: u8 = 7;
const X: u8 = 8;
/// The layer 3 header, or the second tag.
const LAYER3: u8 = 9;
const STACK: u8 = 10;

/// Offsets in what the program is given (`struct xdp_md`).
const OF_FRAME: i16 = 0;
const OF_FRAME_END: i16 = 4;
const OF_QUEUE: i16 = 16;
/// Verdicts.
const DROP: i32 = 1;
pub(super) const PASS: i32 = 2;
/// Functions of the kernel.
const TAIL_CALL: i32 = 12;
const REDIRECT: i32 = 51;
/// The value of a descriptor is that of a table.
const TABLE: u8 = 1;

/// Octets of both addresses and the EtherType, and of a tag and the EtherType behind it.
const ETHERNET: i32 = 14;
const VLAN: i32 = 4;
/// EtherTypes that announce a tag which the kernel takes out.
const TAGGED: [i32; 2] = [0x8100, 0x88a8];
/// The most that X may be where it is part of an offset.
const FURTHEST: i32 = 0xff;
/// The longest program: no jump is farther than its sixteen bits.
const LONGEST: usize = i16::MAX as usize;

/// Passes control to the program of a table of one, and gives frames to the queues' sockets where it has none.
pub(super) fn entry(sockets: RawFd, chooses: RawFd) -> Vec<Instruction> {
    let mut program = vec![step(code::COPY_LONG, CONTEXT, FIRST, 0, 0)];
    program.extend(descriptor(SECOND, chooses));
    program.push(step(code::SET, THIRD, 0, 0, 0));
    program.push(step(code::CALL, 0, 0, 0, TAIL_CALL));
    program.extend(to_socket(sockets));
    program
}

/// Of the frame's queue, or dropped.
fn to_socket(sockets: RawFd) -> Vec<Instruction> {
    let mut block = descriptor(FIRST, sockets).to_vec();
    block.push(step(code::LOAD_WORD, SECOND, CONTEXT, OF_QUEUE, 0));
    block.push(step(code::SET, THIRD, 0, 0, DROP));
    block.push(step(code::CALL, 0, 0, 0, REDIRECT));
    block.push(step(code::EXIT, 0, 0, 0, 0));
    block
}

const fn descriptor(to: u8, descriptor: RawFd) -> [Instruction; 2] {
    [
        step(code::LOAD_DESCRIPTOR, to, TABLE, 0, descriptor),
        step(0, 0, 0, 0, 0),
    ]
}

/// Where a jump leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// To the instruction with this number of the classic program.
    Of(usize),
    /// Over the next instructions, as many.
    Over(i16),
    /// To the end, with 0 or another number.
    Ordinary,
    Chosen,
}

/// The program that gives a frame to its queue's socket where the classic one gives 0, and passes it to the kernel
/// otherwise. `None` where it has what is not understood, or is too long.
pub(super) fn choosing(filter: &[FilterInstruction], sockets: RawFd) -> Option<Vec<Instruction>> {
    let mut made = Translation {
        program: Vec::new(),
        jumps: Vec::new(),
    };
    made.begin();
    let reached = reached(filter)?;
    let mut places = vec![None; filter.len()];
    for (number, instruction) in filter.iter().enumerate().filter(|(number, _)| reached[*number]) {
        places[number] = Some(made.program.len());
        made.translate(number, instruction)?;
    }
    let ordinary = made.program.len();
    made.program.extend(to_socket(sockets));
    let chosen = made.program.len();
    made.push(code::SET, RESULT, 0, PASS);
    made.push(code::EXIT, 0, 0, 0);
    for &(at, target) in &made.jumps {
        let to = match target {
            Target::Of(number) => (*places.get(number)?)?,
            Target::Over(skipped) => at + 1 + skipped as usize,
            Target::Ordinary => ordinary,
            Target::Chosen => chosen,
        };
        made.program[at].offset = i16::try_from(to - at - 1).ok()?;
    }
    (made.program.len() <= LONGEST).then_some(made.program)
}

/// Which instructions are reached from the first one: the verifier does not take others. Jumps lead forward.
fn reached(filter: &[FilterInstruction]) -> Option<Vec<bool>> {
    let mut reached = vec![false; filter.len()];
    *reached.first_mut()? = true;
    for (number, instruction) in filter.iter().enumerate() {
        if !reached[number] {
            continue;
        }
        let next = match instruction.code {
            classic::RETURN | classic::RETURN_A => [None, None],
            classic::JUMP => [Some(instruction.k as usize), None],
            classic::IF_EQUAL | classic::IF_AT_LEAST | classic::IF_BITS => {
                [instruction.jt, instruction.jf].map(|skipped| Some(usize::from(skipped)))
            }
            _ => [Some(0), None],
        };
        for skipped in next.into_iter().flatten() {
            *reached.get_mut(number + 1 + skipped)? = true;
        }
    }
    Some(reached)
}

struct Translation {
    program: Vec<Instruction>,
    /// Jumps, and where they lead.
    jumps: Vec<(usize, Target)>,
}

impl Translation {
    fn push(&mut self, code: u8, to: u8, from: u8, value: i32) {
        self.program.push(step(code, to, from, 0, value));
    }

    fn jump(&mut self, code: u8, to: u8, from: u8, value: i32, target: Target) {
        self.jumps.push((self.program.len(), target));
        self.push(code, to, from, value);
    }

    /// Loads from [`END`], which is `behind` octets behind what is loaded.
    fn load(&mut self, code: u8, to: u8, behind: i32) {
        let bound = (code::IF_BEYOND, END, FRAME_END);
        self.jump(bound.0, bound.1, bound.2, 0, Target::Ordinary);
        self.program.push(step(code, to, END, -(behind as i16), 0));
        match code {
            code::LOAD_WORD => self.push(code::FROM_NETWORK, to, 0, 32),
            code::LOAD_HALF => self.push(code::FROM_NETWORK, to, 0, 16),
            _ => {}
        }
    }

    /// Finds the EtherType, the tag and what is behind them.
    fn begin(&mut self) {
        self.push(code::COPY_LONG, CONTEXT, FIRST, 0);
        self.program
            .push(step(code::LOAD_WORD, LAYER3, FIRST, OF_FRAME, 0));
        self.program
            .push(step(code::LOAD_WORD, FRAME_END, FIRST, OF_FRAME_END, 0));
        self.push(code::ADD_LONG, LAYER3, 0, ETHERNET);
        self.push(code::COPY_LONG, END, LAYER3, 0);
        self.load(code::LOAD_HALF, PROTOCOL, 2);
        self.push(code::SET, TAG, 0, 0);
        self.jump(code::IF_EQUAL, PROTOCOL, 0, TAGGED[0], Target::Over(1));
        // Over what reads the tag.
        self.jump(code::IF_DIFFERENT, PROTOCOL, 0, TAGGED[1], Target::Over(8));
        self.push(code::ADD_LONG, LAYER3, 0, VLAN);
        self.push(code::COPY_LONG, END, LAYER3, 0);
        self.load(code::LOAD_HALF, PROTOCOL, 2);
        self.load(code::LOAD_HALF, TAG, 4);
        self.push(code::SET, A, 0, 0);
        self.push(code::SET, X, 0, 0);
    }

    fn translate(&mut self, number: usize, instruction: &FilterInstruction) -> Option<()> {
        let FilterInstruction { code, jt, jf, k } = *instruction;
        let next = number + 1;
        match code {
            classic::WORD | classic::HALF if k == classic::PROTOCOL => self.push(code::COPY, A, PROTOCOL, 0),
            classic::WORD | classic::HALF if k == classic::VLAN_TAG => self.push(code::COPY, A, TAG, 0),
            classic::WORD | classic::WORD_X => {
                self.load_at(code::LOAD_WORD, 4, k, code == classic::WORD_X)?
            }
            classic::HALF | classic::HALF_X => {
                self.load_at(code::LOAD_HALF, 2, k, code == classic::HALF_X)?
            }
            classic::OCTET | classic::OCTET_X => {
                self.load_at(code::LOAD_OCTET, 1, k, code == classic::OCTET_X)?;
            }
            classic::HEADER_X => self.load_header_octets(k)?,
            classic::SET => self.push(code::SET, A, 0, k as i32),
            classic::SET_X => self.push(code::SET, X, 0, k as i32),
            classic::TO_X => self.push(code::COPY, X, A, 0),
            classic::STORE => self.program.push(step(code::STORE_WORD, STACK, A, word(k)?, 0)),
            classic::RECALL => self.program.push(step(code::LOAD_WORD, A, STACK, word(k)?, 0)),
            classic::RECALL_X => self.program.push(step(code::LOAD_WORD, X, STACK, word(k)?, 0)),
            code if classic::WITH_CONSTANT.contains(&code) => self.push(code as u8, A, 0, k as i32),
            code if classic::WITH_X.contains(&code) => self.push(code as u8, A, X, 0),
            classic::JUMP => self.jump(code::JUMP, 0, 0, 0, Target::Of(next + k as usize)),
            classic::IF_EQUAL | classic::IF_AT_LEAST | classic::IF_BITS => {
                let compare = match code {
                    classic::IF_EQUAL => code::IF_EQUAL,
                    classic::IF_AT_LEAST => code::IF_AT_LEAST,
                    _ => code::IF_BITS,
                };
                self.jump(compare, A, 0, k as i32, Target::Of(next + usize::from(jt)));
                if jf > 0 {
                    self.jump(code::JUMP, 0, 0, 0, Target::Of(next + usize::from(jf)));
                }
            }
            classic::RETURN if k == 0 => self.jump(code::JUMP, 0, 0, 0, Target::Ordinary),
            classic::RETURN => self.jump(code::JUMP, 0, 0, 0, Target::Chosen),
            classic::RETURN_A => {
                self.jump(code::IF_EQUAL, A, 0, 0, Target::Ordinary);
                self.jump(code::JUMP, 0, 0, 0, Target::Chosen);
            }
            _ => return None,
        }
        Some(())
    }

    /// A = what is at `k`, or X octets behind it.
    fn load_at(&mut self, code: u8, octets: i32, k: u32, is_behind_x: bool) -> Option<()> {
        self.find(octets, k, is_behind_x)?;
        self.load(code, A, octets);
        Some(())
    }

    /// X = the octets of the IPv4 header at `k`.
    fn load_header_octets(&mut self, k: u32) -> Option<()> {
        self.find(1, k, false)?;
        self.load(code::LOAD_OCTET, X, 1);
        self.push(code::AND, X, 0, 0xf);
        self.push(code::SHIFT_LEFT, X, 0, 2);
        Some(())
    }

    /// Sets [`END`] behind octets at `k`. Offsets are less than those that mean something else.
    fn find(&mut self, octets: i32, k: u32, is_behind_x: bool) -> Option<()> {
        let end = i32::from(i16::try_from(k).ok()?) + octets;
        if is_behind_x {
            self.push(code::COPY_LONG, END, X, 0);
            // So the verifier knows that it is bounded.
            self.push(code::AND_LONG, END, 0, FURTHEST);
            self.push(code::ADD_REGISTER_LONG, END, LAYER3, 0);
        } else {
            self.push(code::COPY_LONG, END, LAYER3, 0);
        }
        self.push(code::ADD_LONG, END, 0, end);
        Some(())
    }
}

/// Where a word of memory is on the stack.
fn word(k: u32) -> Option<i16> {
    (k < classic::MEMORY).then_some(-4 * (k as i16 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classic(code: u16, jt: u8, jf: u8, k: u32) -> FilterInstruction {
        FilterInstruction { code, jt, jf, k }
    }

    #[test]
    fn what_is_not_reached_is_left_out() {
        let ends = classic(classic::RETURN, 0, 0, 0);
        let program = [
            classic(classic::JUMP, 0, 0, 1),
            ends,
            classic(classic::RETURN, 0, 0, 1),
        ];
        assert_eq!(reached(&program), Some(vec![true, false, true]));
        let shorter = choosing(&program, 3).unwrap();
        let both = [classic(classic::IF_EQUAL, 1, 0, 7), ends, program[2]];
        assert_eq!(choosing(&both, 3).unwrap().len(), shorter.len() + 1);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for program in [
            vec![],
            vec![classic(0xffff, 0, 0, 0), classic(classic::RETURN, 0, 0, 0)],
            // Beyond the end; an offset of what is not known; a word of memory that there is not.
            vec![classic(classic::JUMP, 0, 0, 0)],
            vec![
                classic(classic::WORD, 0, 0, 0xffff_f008),
                classic(classic::RETURN, 0, 0, 0),
            ],
            vec![
                classic(classic::STORE, 0, 0, 16),
                classic(classic::RETURN, 0, 0, 0),
            ],
        ] {
            assert_eq!(choosing(&program, 3), None, "{program:?}");
        }
    }
}
