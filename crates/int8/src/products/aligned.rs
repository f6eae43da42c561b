//! Lists of numbers that begin where a line of the CPU's cache does, so that no vector lies across two of them.

use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a line.
const LINE: usize = 64;
/// Bytes of a large page.
const LARGE: usize = 2 << 20;
/// Bytes that are asked of the system at a time. What isn't written to takes no memory.
const BLOCK: usize = 32 << 20;

/// Numbers whose bytes may be anything, so that zeros are one of them.
///
/// # Safety
/// Every pattern of bits is a value of the type, which is aligned to less than a line.
pub unsafe trait Number: Copy {}
// SAFETY: these are plain numbers.
unsafe impl Number for i8 {}
// SAFETY: as above.
unsafe impl Number for i32 {}
// SAFETY: as above.
unsafe impl Number for u16 {}
// SAFETY: as above.
unsafe impl Number for f32 {}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// The bytes of `len` numbers, with which a list is rounded up and lies in a block.
///
/// # Panics
/// Where no memory has so many: a shorter list would be read and written beyond its end.
fn bytes_of<T>(len: usize) -> usize {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize - BLOCK - LARGE);
    bytes.unwrap_or_else(|| panic!("{len} numbers are more than any memory holds"))
}

/// A list that grows when more is asked of it, and is used again.
pub struct Scratch<T> {
    lines: Vec<Line>,
    len: usize,
    numbers: PhantomData<T>,
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Scratch { lines: vec![], len: 0, numbers: PhantomData }
    }
}

impl<T: Number> Scratch<T> {
    /// Makes it `len` numbers long; what is in them is left from before, or zeros.
    pub fn resize(&mut self, len: usize) {
        let lines = bytes_of::<T>(len).div_ceil(LINE);
        if lines > self.lines.len() {
            self.lines.resize(lines, Line([0; LINE]));
        }
        self.len = len;
    }
}

impl<T: Number> Deref for Scratch<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: there are as many lines as the numbers need, whose bytes may be anything.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: Number> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and they have no other owner.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// Memory of the system's, in large pages where it has them.
struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is memory, and each list has a part of its own.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: usize) -> Block {
        // SAFETY: new memory, at an address of the system's choice, without another owner.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let Some(start) = start.ok().and_then(|start| NonNull::new(start.cast::<u8>())) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::from_size_align(bytes, LINE).unwrap_or(std::alloc::Layout::new::<Line>()))
        };
        // Where the system has none, its pages stay small.
        #[cfg(target_os = "linux")]
        // SAFETY: of the memory above it is only said which pages are wished for.
        let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
        Block { start, bytes }
    }

    /// The first byte of it where a large page begins.
    fn first(&self) -> usize {
        self.start.as_ptr().align_offset(LARGE).min(self.bytes)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the memory of `new`, and no list in it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A list of fixed length. Lists that are made one after the other lie behind one another in few blocks, so that large
/// pages hold them: of small ones, the CPU looks up thousands while it reads a model once.
pub struct Fixed<T> {
    block: Arc<Block>,
    /// The first of its bytes in the block.
    at: usize,
    len: usize,
    numbers: PhantomData<T>,
}

/// The block that was asked for last, and how much of it is given away.
static OPEN: Mutex<Option<(Arc<Block>, usize)>> = Mutex::new(None);

impl<T: Number> Fixed<T> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Fixed<T> {
        let bytes = bytes_of::<T>(len).next_multiple_of(LINE);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (block, at) = match open.take() {
            // In a block that was asked for all memory is new, so there are zeros in it.
            Some((block, at)) if bytes <= block.bytes - at => (block, at),
            _ => {
                let block = Arc::new(Block::new(bytes.max(BLOCK) + LARGE));
                let first = block.first();
                (block, first)
            }
        };
        *open = Some((block.clone(), at + bytes));
        Fixed { block, at, len, numbers: PhantomData }
    }

    /// Its bytes as numbers of another type.
    pub fn cast<E: Number>(&self) -> &[E] {
        // SAFETY: as many as lie in the bytes of this list, which begin at a line and may be anything.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len * size_of::<T>() / size_of::<E>()) }
    }

    /// The same, to be written to.
    pub fn cast_mut<E: Number>(&mut self) -> &mut [E] {
        // SAFETY: as above, and they have no other owner.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len * size_of::<T>() / size_of::<E>()) }
    }
}

impl<T: Number> Deref for Fixed<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the bytes from `at` on belong to this list, begin at a line, and may be anything.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr().add(self.at).cast(), self.len) }
    }
}

impl<T: Number> DerefMut for Fixed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and they have no other owner.
        unsafe { std::slice::from_raw_parts_mut(self.block.start.as_ptr().add(self.at).cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "more than any memory holds")]
    fn a_list_whose_bytes_overflow_is_refused() {
        Scratch::<f32>::default().resize(usize::MAX / 2);
    }

    #[test]
    fn lists_have_memory_of_their_own() {
        let mut lists: Vec<Fixed<f32>> = (0..20).map(|i| Fixed::zeros(1 + 100_000 * i)).collect();
        let mut scratch = Scratch::<i32>::default();
        scratch.resize(33);
        assert!(scratch.iter().all(|x| *x == 0) && (scratch.as_ptr() as usize).is_multiple_of(64) && scratch.len() == 33);
        for (i, list) in lists.iter_mut().enumerate() {
            assert!((list.as_ptr() as usize).is_multiple_of(64) && list.iter().all(|x| *x == 0.0));
            list.fill(i as f32);
        }
        assert!(lists.iter().enumerate().all(|(i, list)| list.len() == 1 + 100_000 * i && list.iter().all(|x| *x == i as f32)));
    }
}
