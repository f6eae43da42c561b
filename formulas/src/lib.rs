//! The formulas of `flow`: what can be tested by hand, without a policy, a world or a graph. It knows Arrow's rows and
//! nothing of libtorch, so an edit is tested in seconds: `make test-formulas`.
//!
//! [`credit`] makes advantages of returns, [`memory`] says what is kept and found again, [`stats`] has intervals and
//! tests of studies; all three read and make columns of [`row`]. [`prototypes`] and [`difflib`] say how alike two texts
//! are, [`seed`] where chance comes from. [`defaults`], [`files`] and [`python_package`] are what every other package
//! needs, too; [`guard`], [`keep`], [`printable`] and [`role`] what several do.

pub mod credit;
pub mod defaults;
pub mod difflib;
pub mod files;
pub mod guard;
pub mod keep;
pub mod memory;
pub mod printable;
pub mod prototypes;
pub mod python_package;
pub mod role;
pub mod row;
pub mod seed;
pub mod stats;
