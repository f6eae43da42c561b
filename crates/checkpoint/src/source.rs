//! Tensors that lie in files, found by name and checked against an architecture before any of them is read.

use flow_model::parameters::{Layout, Leaf};
use flow_model::{FileFault, PolicyError, Result};
use std::path::Path;

/// Tensors of a checkpoint, under the names that its architecture gives them.
pub trait TensorSource: Sync {
    /// What is to be named when something as a whole is wrong.
    fn path(&self) -> &Path;
    /// A tensor's file.
    fn file(&self, name: &str) -> &Path;
    /// The names of all tensors.
    fn names(&self) -> Vec<&str>;
    /// The sizes of a tensor; `None` if there is no such.
    fn size(&self, name: &str) -> Option<Vec<i64>>;
    /// Reads a tensor a stretch at a time: `put` takes the place of the first number of each, and the numbers.
    ///
    /// # Errors
    /// If the file can't be read, or `put` fails.
    fn read(&self, name: &str, put: &mut dyn FnMut(usize, &[f32]) -> Result<()>) -> Result<()>;
}

/// Whether `source` has every parameter of `layout` in its sizes, and no other tensors than those in `unread`; `prefix`
/// goes before the names. Nothing is read.
///
/// # Errors
/// Names the first tensor that is missing, has other sizes, or that the architecture doesn't know.
pub fn check(source: &dyn TensorSource, layout: &Layout, prefix: &str, unread: fn(&str) -> bool) -> Result<()> {
    for parameter in &layout.parameters {
        let tensor = format!("{prefix}{}", parameter.name);
        match source.size(&tensor) {
            None => {
                let alike = |name: &&&str| name.ends_with(&format!(".{tensor}")) || tensor.ends_with(&format!(".{name}"));
                let fault = match source.names().iter().find(alike) {
                    Some(found) => FileFault::Prefix { found: found.to_string(), tensor },
                    None => FileFault::NoTensor { tensor },
                };
                return Err(PolicyError::at(source.path(), fault));
            }
            Some(size) if size != parameter.size => {
                let (path, wanted) = (source.file(&tensor).to_owned(), parameter.size.clone());
                return Err(PolicyError::at(&path, FileFault::Sizes { tensor, size, wanted }));
            }
            Some(_) => {}
        }
    }
    let known = |name: &str| name.strip_prefix(prefix).is_some_and(|name| layout.parameters.iter().any(|p| p.name == name));
    match source.names().into_iter().find(|name| name.starts_with(prefix) && !known(name) && !unread(name)) {
        Some(tensor) => Err(PolicyError::at(source.file(tensor), FileFault::UnknownTensor { tensor: tensor.into() })),
        None => Ok(()),
    }
}

/// The numbers in f32 of the parameters `leaf` is made of, one after the other, of a source that [`check`] found to be
/// whole.
///
/// # Errors
/// If a file can't be read, or has a NaN or infinite number.
pub fn read_leaf(source: &dyn TensorSource, layout: &Layout, leaf: &Leaf) -> Result<Vec<f32>> {
    let mut all = Vec::with_capacity(leaf.size.iter().product::<i64>() as usize);
    for parameter in layout.stacked_in(leaf) {
        read_finite(source, &parameter.name, &mut |_, numbers| {
            all.extend_from_slice(numbers);
            Ok(())
        })?;
    }
    Ok(all)
}

/// Reads a tensor, whose numbers must be finite.
pub fn read_finite(source: &dyn TensorSource, name: &str, put: &mut dyn FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
    source.read(name, &mut |at, numbers| match numbers.iter().all(|number| number.is_finite()) {
        true => put(at, numbers),
        false => Err(PolicyError::at(source.file(name), FileFault::NotFinite { tensor: name.into() })),
    })
}
