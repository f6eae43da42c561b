//! What every package of flow needs: the rows of Arrow with their names and orders ([`row`]), where chance comes from
//! ([`seed`]), files that are written whole ([`files`]), and small things of several packages.

pub mod child;
pub mod columns;
pub mod defaults;
pub mod files;
pub mod guard;
pub mod keep;
pub mod printable;
pub mod pulse;
pub mod python_package;
pub mod role;
pub mod row;
pub mod seed;
