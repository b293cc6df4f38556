//! What the machine code of a kernel holds.
//!
//! Reads the text that `nvdisasm -c` prints: a section for each entry point, a label or an
//! instruction a line, branch targets as labels.

use std::collections::HashMap;

use crate::image::SassFacts;

/// One instruction of a section.
struct Instruction<'a> {
    /// Whether a predicate stands before it.
    predicated: bool,
    /// With its modifiers, such as `LDG.E.128`.
    opcode: &'a str,
    /// Everything behind it.
    operands: &'a str,
}

impl<'a> Instruction<'a> {
    /// Reads `/*0080*/ @!P0 BRA `(.L_x_1) ;`; `None` for a line that is no instruction.
    fn parse(line: &'a str) -> Option<Self> {
        let (address, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
        if !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut rest = rest.trim_start();
        let predicated = rest.starts_with('@');
        if predicated {
            rest = rest.split_once(char::is_whitespace)?.1.trim_start();
        }
        let end = rest
            .find(|c: char| c.is_whitespace() || c == ';')
            .unwrap_or(rest.len());
        let (opcode, operands) = rest.split_at(end);
        (!opcode.is_empty()).then_some(Self {
            predicated,
            opcode,
            operands,
        })
    }

    /// The opcode without modifiers.
    fn base(&self) -> &'a str {
        self.opcode.split('.').next().unwrap_or(self.opcode)
    }

    /// The label it names.
    fn label(&self) -> Option<&'a str> {
        Some(self.operands.split_once("`(")?.1.split_once(')')?.0)
    }

    /// The label a branch goes to.
    fn target(&self) -> Option<&'a str> {
        if self.base() == "BRA" {
            self.label()
        } else {
            None
        }
    }

    /// Whether the next instruction can follow. `BRA` may have a condition among its operands, as
    /// in `BRA.DIV UR4, ...`.
    fn falls_through(&self) -> bool {
        match self.base() {
            "BRA" => self.predicated || !self.operands.trim_start().starts_with('`'),
            "EXIT" | "RET" | "BRX" | "JMX" => self.predicated,
            _ => true,
        }
    }
}

/// A piece of text without branches across its ends.
#[derive(Default)]
struct Section<'a> {
    instructions: Vec<Instruction<'a>>,
    /// Label to the index of the instruction behind it.
    labels: HashMap<&'a str, usize>,
}

impl Section<'_> {
    /// Instructions without the padding at the end.
    fn len(&self) -> usize {
        let padding = self
            .instructions
            .iter()
            .rev()
            .take_while(|i| i.base() == "NOP")
            .count();
        self.instructions.len() - padding
    }

    /// First and last instruction of each loop: of a backward branch that its own target reaches,
    /// the target and the branch. Code that ptxas moved behind the end (the slow path of a shuffle
    /// under divergence) branches back without being a loop.
    fn loops(&self) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        for (at, instruction) in self.instructions.iter().enumerate() {
            let target = instruction
                .target()
                .and_then(|label| self.labels.get(label));
            // A branch to itself is the trap behind the last instruction, not a loop.
            if let Some(&target) = target
                && target < at
                && self.reaches(target, at)
            {
                spans.push((target, at));
            }
        }
        spans
    }

    /// Whether control can pass from one instruction to another.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.instructions.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            let Some(instruction) = self.instructions.get(at) else {
                continue;
            };
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            // BSSY names where BSYNC will continue.
            let jump = matches!(instruction.base(), "BRA" | "BSSY");
            let label = instruction.label().filter(|_| jump);
            open.extend(label.and_then(|label| self.labels.get(label)));
            if instruction.falls_through() {
                open.push(at + 1);
            }
        }
        false
    }

    /// Instructions in the largest loop that has no other inside.
    fn inner_loop(&self) -> usize {
        let spans = self.loops();
        let innermost = |&&(first, last): &&(usize, usize)| {
            !spans
                .iter()
                .any(|&(f, l)| first <= f && l <= last && (f, l) != (first, last))
        };
        spans
            .iter()
            .filter(innermost)
            .map(|(first, last)| last - first + 1)
            .max()
            .unwrap_or(0)
    }
}

/// Counts what [`SassFacts`] names in the text that `nvdisasm -c` printed for one entry point.
pub fn facts(text: &str) -> SassFacts {
    let mut sections = vec![Section::default()];
    for line in text.lines() {
        let Some(section) = sections.last_mut() else {
            break;
        };
        let trimmed = line.trim();
        if trimmed.starts_with(".section") {
            sections.push(Section::default());
        } else if let Some(label) = trimmed.strip_suffix(':') {
            section.labels.insert(label, section.instructions.len());
        } else if let Some(instruction) = Instruction::parse(line) {
            section.instructions.push(instruction);
        }
    }
    let mut facts = SassFacts::default();
    for section in &sections {
        facts.instructions += section.len() as u32;
        facts.inner_loop = facts.inner_loop.max(section.inner_loop() as u32);
        for instruction in &section.instructions {
            let count = match instruction.base() {
                "CLMAD" => &mut facts.clmad,
                "IMMA" | "IGMMA" => &mut facts.imma,
                "LDS" => &mut facts.lds,
                "LDSM" => &mut facts.ldsm,
                "STS" => &mut facts.sts,
                "LDG" => &mut facts.ldg,
                "STG" => &mut facts.stg,
                "BAR" => &mut facts.barriers,
                "LD" => &mut facts.generic_loads,
                "ST" | "ATOM" => &mut facts.generic_stores,
                "LDL" | "STL" => &mut facts.local,
                _ => continue,
            };
            *count += 1;
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nvdisasm -c` 13.5 on a kernel for sm_90a that calls a function with a stack frame in a loop
    /// with a barrier.
    const CALL_IN_A_LOOP: &str = include_str!("../testdata/call_in_a_loop.sass");

    fn listing(lines: &[&str]) -> String {
        let line = |(at, line): (usize, &&str)| {
            if line.ends_with(':') {
                format!("{line}\n")
            } else {
                format!("        /*{:04x}*/               {line} ;\n", at * 16)
            }
        };
        let lines: Vec<_> = lines.iter().enumerate().map(line).collect();
        format!("\t.section\t.text.k,\"ax\",@progbits\n{}", lines.concat())
    }

    #[test]
    fn a_recorded_listing_is_counted_to_the_instruction() {
        let expected = SassFacts {
            instructions: 27,
            inner_loop: 12,
            sts: 1,
            stg: 1,
            barriers: 1,
            local: 2,
            ..SassFacts::default()
        };
        assert_eq!(facts(CALL_IN_A_LOOP), expected);
    }

    #[test]
    fn the_inner_loop_is_the_largest_that_holds_no_other() {
        let text = listing(&[
            ".L_outer:",
            "MOV R0, R1",
            ".L_small:",
            "IADD3 R0, R0, R1, RZ",
            "@P0 BRA `(.L_small)",
            ".L_large:",
            "LDS R2, [R3]",
            "LDS.128 R4, [R3+0x10]",
            "IMAD R0, R0, R1, R2",
            "@!P1 BRA `(.L_large)",
            "@P2 BRA `(.L_outer)",
            "EXIT",
            ".L_trap:",
            "BRA `(.L_trap)",
            "NOP",
            "NOP",
        ]);
        let facts = facts(&text);
        assert_eq!(
            (facts.inner_loop, facts.instructions, facts.lds),
            (4, 10, 2)
        );
    }

    #[test]
    fn a_slow_path_behind_the_end_is_no_loop() {
        let text = listing(&[
            "MOV R0, R1",
            "BRA.DIV UR4, `(.L_slow)",
            "SHFL.BFLY PT, R1, R0, 0x1, 0x1f",
            ".L_back:",
            "IADD3 R0, R0, R1, RZ",
            "EXIT",
            ".L_slow:",
            "WARPSYNC.COLLECTIVE R5, `(.L_x)",
            "BRA `(.L_back)",
        ]);
        assert_eq!(facts(&text).inner_loop, 0);
    }

    #[test]
    fn a_loop_through_a_uniform_branch_is_one() {
        let text = listing(&[
            ".L_top:",
            "BSSY B0, `(.L_join)",
            "@P0 BRA `(.L_join)",
            "BSYNC B0",
            ".L_join:",
            "BRA.U UP0, `(.L_top)",
            "EXIT",
        ]);
        assert_eq!(facts(&text).inner_loop, 4);
    }

    #[test]
    fn generic_and_shared_and_global_accesses_are_told_apart() {
        let text = listing(&[
            "LD.E R0, [R2]",
            "LD.E.128 R4, desc[UR4][R2.64]",
            "ST.E [R2], R0",
            "ATOM.E.ADD PT, R0",
            "LDG.E R0, [R2]",
            "LDGSTS.E.128 [R0], [R2]",
            "LDSM.16.M88.4 R4, [R8]",
            "LDS R0, [R1]",
            "LDC R1, c[0x0][0x28]",
            "LDL R0, [R1]",
            "STL.64 [R1], R2",
            "STG.E [R2], R0",
            "ATOMG.E.ADD PT, R0",
            "ATOMS.ADD RZ",
            "@P0 CLMAD.HI R0, R2, R4, R6",
            "IMMA.16832.S8.U8 R8, R12.ROW, R4.COL, R8",
            "BAR.SYNC.DEFER_BLOCKING 0x0",
        ]);
        let expected = SassFacts {
            instructions: 17,
            inner_loop: 0,
            clmad: 1,
            imma: 1,
            lds: 1,
            ldsm: 1,
            sts: 0,
            ldg: 1,
            stg: 1,
            barriers: 1,
            generic_loads: 2,
            generic_stores: 2,
            local: 2,
        };
        assert_eq!(facts(&text), expected);
    }

    #[test]
    fn text_that_is_no_listing_has_no_facts() {
        assert_eq!(facts(""), SassFacts::default());
        assert_eq!(
            facts("/* a comment */\n/*zz*/ LDS\n/*00*/\n@ ;\n/*0000*/ @P0"),
            SassFacts::default()
        );
    }
}
