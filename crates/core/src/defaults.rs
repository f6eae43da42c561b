//! The values of settings that a file leaves out, as serde's `default` names them:
//! `#[serde(default = "number::<u32, 8>")]`.

use std::ops::Div;

/// The whole number `N`.
pub fn number<T: From<u16>, const N: u16>() -> T {
    T::from(N)
}

/// `N` hundredths, the nearest number to them.
pub fn hundredths<T: From<u16> + Div<Output = T>, const N: u16>() -> T {
    T::from(N) / T::from(100)
}

/// True.
pub fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::{hundredths, number};

    #[test]
    fn a_default_is_the_literal_that_it_stands_for() {
        assert_eq!((number::<usize, 8192>(), number::<f64, 600>()), (8192, 600.0));
        assert_eq!((hundredths::<f64, 85>(), hundredths::<f64, 5>(), hundredths::<f64, 30>()), (0.85, 0.05, 0.3));
        assert_eq!((hundredths::<f32, 90>(), hundredths::<f32, 10>(), hundredths::<f32, 70>()), (0.9, 0.1, 0.7));
    }
}
