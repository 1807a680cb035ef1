//! The instructions that write lines back. Which of them the processor has is found out once.
//!
//! `clwb` may keep the line in the cache; `clflushopt` drops it; `clflush` drops it and orders
//! itself after every earlier one. All three need the fence here, so callers see no difference but
//! speed.
#![allow(unsafe_code)]

/// Begins to write back `lines`, which begin at the beginning of a line.
#[cfg(target_arch = "x86_64")]
pub(crate) fn write_back(lines: &[u8]) {
    use std::arch::asm;

    /// One instruction for each line.
    macro_rules! each_line {
        ($instruction:literal) => {
            for line in lines.chunks(super::PMEM_LINE_BYTES as usize) {
                // Safety: writes a line that is mapped, as the reference says, back to memory; no
                // byte changes. The compiler keeps earlier stores before it, as the block may read
                // memory.
                unsafe {
                    asm!(
                        $instruction,
                        line = in(reg) line.as_ptr(),
                        options(nostack, preserves_flags)
                    );
                }
            }
        };
    }

    match instruction::chosen() {
        instruction::CLWB => each_line!("clwb [{line}]"),
        instruction::CLFLUSHOPT => each_line!("clflushopt [{line}]"),
        _ => each_line!("clflush [{line}]"),
    }
}

/// Returns when what this thread wrote back has reached memory, before any later store.
#[cfg(target_arch = "x86_64")]
pub(crate) fn fence_lines() {
    // Safety: orders stores; changes nothing.
    unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) }
}

/// Other processors: no file is taken for persistent memory there (`Memory::of_file`), and in what
/// is emulated nothing has to be written back.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn write_back(_lines: &[u8]) {}

/// Orders stores.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn fence_lines() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(target_arch = "x86_64")]
mod instruction {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    /// Every processor of 64 bits has it.
    pub const CLFLUSH: u8 = 1;
    pub const CLFLUSHOPT: u8 = 2;
    pub const CLWB: u8 = 3;

    static CHOSEN: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// The best instruction of this processor.
    #[inline]
    pub fn chosen() -> u8 {
        match CHOSEN.load(Ordering::Relaxed) {
            UNKNOWN => find(),
            found => found,
        }
    }

    #[cold]
    fn find() -> u8 {
        // Leaf 7 of `cpuid`, register b: bit 24 is clwb, bit 23 clflushopt.
        let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        let found = match (features >> 24 & 1, features >> 23 & 1) {
            (1, _) => CLWB,
            (_, 1) => CLFLUSHOPT,
            _ => CLFLUSH,
        };
        CHOSEN.store(found, Ordering::Relaxed);
        found
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        write_back(&bytes);
        fence_lines();
        assert!(bytes.iter().copied().eq(0..=255));
        assert!((instruction::CLFLUSH..=instruction::CLWB).contains(&instruction::chosen()));
    }
}
