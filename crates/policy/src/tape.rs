//! Vectors with gradients, where no libtorch is: those functions of its tensors that a loss is written in, under the
//! same names. A trainer computes the network, so that nothing here is large.
//!
//! Slopes where a function has a corner are libtorch's: of `maximum` and `minimum` a half for each of two equal numbers,
//! of `clamp` 1 at its bounds, of `abs` 0 at 0. Yes and no are 1 and 0, and indices whole numbers up to 2^24.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub};
use std::rc::Rc;

thread_local! {
    /// Whether new vectors are made without a gradient.
    static FREE: Cell<bool> = const { Cell::new(false) };
}

/// Where a vector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Cpu,
}

/// How its numbers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Float,
    /// 1 where a number isn't 0.
    Bool,
}

/// Turns the gradient by a vector into one by a vector that it was made of.
type Slope = Box<dyn Fn(&[f32]) -> Vec<f32>>;

struct Node {
    values: Vec<f32>,
    learns: bool,
    from: Vec<(Tensor, Slope)>,
}

/// A vector of numbers, or one number.
pub struct Tensor(Rc<Node>);

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.0.values.fmt(f)
    }
}

/// Numbers that a vector can be made of.
pub trait Element: Copy {
    fn number(self) -> f32;
}

impl Element for f32 {
    fn number(self) -> f32 {
        self
    }
}

impl Element for i64 {
    fn number(self) -> f32 {
        self as f32
    }
}

/// Does `work` without noting what its results are made of.
pub fn no_grad<T>(work: impl FnOnce() -> T) -> T {
    let before = FREE.replace(true);
    let result = work();
    FREE.set(before);
    result
}

/// The numbers of a vector.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.0.values.clone()
}

/// Indices as a vector.
#[cfg(not(feature = "torch"))]
pub fn indices(values: &[i64], _: Device) -> Tensor {
    Tensor::from_slice(values)
}

/// Functions that give 1 where a number compares so with another, and where two vectors' numbers do.
macro_rules! compared {
    ($($name:ident: $operator:tt),+; $($pair:ident: $holds:expr;)+) => {
        $(#[allow(clippy::should_implement_trait)]
        pub fn $name(&self, other: f64) -> Tensor {
            self.is(|x| x $operator other as f32)
        })+
        $(pub fn $pair(&self, other: &Tensor) -> Tensor {
            self.are(other, $holds)
        })+
    };
}

impl Tensor {
    fn made(values: Vec<f32>, from: Vec<(Tensor, Slope)>) -> Tensor {
        let from: Vec<_> = if FREE.get() { Vec::new() } else { from.into_iter().filter(|(parent, _)| parent.0.learns).collect() };
        Tensor(Rc::new(Node { values, learns: !from.is_empty(), from }))
    }

    fn leaf(values: Vec<f32>) -> Tensor {
        Tensor::made(values, Vec::new())
    }

    /// `value` of each number; `slope` is its derivative there.
    fn each(&self, value: impl Fn(f32) -> f32, slope: impl Fn(f32) -> f32 + 'static) -> Tensor {
        let own = self.shallow_clone();
        let back = move |by: &[f32]| by.iter().zip(&own.0.values).map(|(by, x)| by * slope(*x)).collect();
        Tensor::made(self.0.values.iter().map(|x| value(*x)).collect(), vec![(self.shallow_clone(), Box::new(back))])
    }

    /// `value` of each pair; `slopes` are its derivatives by both.
    fn pairs(&self, other: &Tensor, value: impl Fn(f32, f32) -> f32, slopes: impl Fn(f32, f32) -> (f32, f32) + Copy + 'static) -> Tensor {
        assert_eq!(self.numel(), other.numel(), "vectors of one length");
        let back = |first: bool| -> Slope {
            let (a, b) = (self.shallow_clone(), other.shallow_clone());
            Box::new(move |by| {
                let both = a.0.values.iter().zip(&b.0.values).map(|(a, b)| slopes(*a, *b));
                by.iter().zip(both).map(|(by, (own, others))| by * if first { own } else { others }).collect()
            })
        };
        let values = self.0.values.iter().zip(&other.0.values).map(|(a, b)| value(*a, *b)).collect();
        Tensor::made(values, vec![(self.shallow_clone(), back(true)), (other.shallow_clone(), back(false))])
    }

    /// 1 where it holds of a number.
    fn is(&self, holds: impl Fn(f32) -> bool) -> Tensor {
        Tensor::leaf(self.0.values.iter().map(|x| f32::from(u8::from(holds(*x)))).collect())
    }

    /// 1 where it holds of a pair.
    fn are(&self, other: &Tensor, holds: impl Fn(f32, f32) -> bool) -> Tensor {
        Tensor::leaf(self.0.values.iter().zip(&other.0.values).map(|(a, b)| f32::from(u8::from(holds(*a, *b)))).collect())
    }

    pub fn from_slice<T: Element>(values: &[T]) -> Tensor {
        Tensor::leaf(values.iter().map(|value| value.number()).collect())
    }

    pub fn zeros(size: [i64; 1], _: (Kind, Device)) -> Tensor {
        Tensor::leaf(vec![0.0; size[0] as usize])
    }

    pub fn set_requires_grad(self, learns: bool) -> Tensor {
        Tensor(Rc::new(Node { values: self.0.values.clone(), learns, from: Vec::new() }))
    }

    pub fn numel(&self) -> usize {
        self.0.values.len()
    }

    pub fn device(&self) -> Device {
        Device::Cpu
    }

    pub fn to_device(&self, _: Device) -> Tensor {
        self.shallow_clone()
    }

    pub fn to_kind(&self, kind: Kind) -> Tensor {
        match kind {
            Kind::Float => self.shallow_clone(),
            Kind::Bool => self.is(|x| x != 0.0),
        }
    }

    pub fn double_value(&self, at: &[i64]) -> f64 {
        f64::from(self.0.values[at.first().map_or(0, |at| *at as usize)])
    }

    pub fn shallow_clone(&self) -> Tensor {
        Tensor(self.0.clone())
    }

    pub fn copy(&self) -> Tensor {
        self.shallow_clone()
    }

    pub fn detach(&self) -> Tensor {
        Tensor::leaf(self.0.values.clone())
    }

    pub fn zeros_like(&self) -> Tensor {
        self.is(|_| false)
    }

    pub fn ones_like(&self) -> Tensor {
        self.is(|_| true)
    }

    pub fn abs(&self) -> Tensor {
        self.each(f32::abs, sign)
    }

    pub fn sign(&self) -> Tensor {
        self.each(sign, |_| 0.0)
    }

    pub fn exp(&self) -> Tensor {
        self.each(f32::exp, f32::exp)
    }

    pub fn log(&self) -> Tensor {
        self.each(f32::ln, f32::recip)
    }

    pub fn sqrt(&self) -> Tensor {
        self.each(f32::sqrt, |x| 0.5 / x.sqrt())
    }

    pub fn square(&self) -> Tensor {
        self.each(|x| x * x, |x| 2.0 * x)
    }

    pub fn sigmoid(&self) -> Tensor {
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        self.each(sigmoid, move |x| sigmoid(x) * (1.0 - sigmoid(x)))
    }

    pub fn clamp(&self, low: f64, high: f64) -> Tensor {
        let (low, high) = (low as f32, high as f32);
        self.each(|x| if x.is_nan() { x } else { x.max(low).min(high) }, move |x| f32::from(u8::from(x >= low && x <= high)))
    }

    pub fn clamp_min(&self, low: f64) -> Tensor {
        self.clamp(low, f64::INFINITY)
    }

    pub fn clamp_max(&self, high: f64) -> Tensor {
        self.clamp(f64::NEG_INFINITY, high)
    }

    pub fn maximum(&self, other: &Tensor) -> Tensor {
        let greater = |a: f32, b: f32| if a.is_nan() || a > b { a } else { b };
        self.pairs(other, greater, |a, b| (share(a, b), share(b, a)))
    }

    pub fn minimum(&self, other: &Tensor) -> Tensor {
        let lesser = |a: f32, b: f32| if a.is_nan() || a < b { a } else { b };
        self.pairs(other, lesser, |a, b| (share(b, a), share(a, b)))
    }

    /// Itself where `condition` isn't 0, else `other`.
    pub fn where_self(&self, condition: &Tensor, other: &Tensor) -> Tensor {
        let part = |own: bool| -> Slope {
            let condition = condition.shallow_clone();
            Box::new(move |by| by.iter().zip(&condition.0.values).map(|(by, yes)| if (*yes != 0.0) == own { *by } else { 0.0 }).collect())
        };
        let both = self.0.values.iter().zip(&other.0.values);
        let values = both.zip(&condition.0.values).map(|((own, other), yes)| if *yes != 0.0 { *own } else { *other }).collect();
        Tensor::made(values, vec![(self.shallow_clone(), part(true)), (other.shallow_clone(), part(false))])
    }

    pub fn masked_fill(&self, mask: &Tensor, value: f64) -> Tensor {
        let filled = Tensor::leaf(vec![value as f32; self.numel()]);
        filled.where_self(mask, self)
    }

    compared! {
        lt: <, le: <=, gt: >, eq: ==;
        lt_tensor: |a, b| a < b;
        gt_tensor: |a, b| a > b;
        not_equal_tensor: |a, b| a != b;
        logical_and: |a, b| a != 0.0 && b != 0.0;
        logical_or: |a, b| a != 0.0 || b != 0.0;
    }

    pub fn logical_not(&self) -> Tensor {
        self.is(|x| x == 0.0)
    }

    /// The sum of all, one number.
    pub fn sum(&self, _: Option<Kind>) -> Tensor {
        let count = self.numel();
        let total: f64 = self.0.values.iter().map(|x| f64::from(*x)).sum();
        Tensor::made(vec![total as f32], vec![(self.shallow_clone(), Box::new(move |by| vec![by[0]; count]))])
    }

    /// Itself, and each number of `source` added at its `index`.
    pub fn index_add(&self, _: i64, index: &Tensor, source: &Tensor) -> Tensor {
        let mut values = self.0.values.clone();
        index.0.values.iter().zip(&source.0.values).for_each(|(at, x)| values[*at as usize] += x);
        let places = index.shallow_clone();
        let pick = move |by: &[f32]| places.0.values.iter().map(|at| by[*at as usize]).collect();
        Tensor::made(values, vec![(self.shallow_clone(), Box::new(<[f32]>::to_vec)), (source.shallow_clone(), Box::new(pick))])
    }

    /// Its numbers at each `index`.
    pub fn index_select(&self, _: i64, index: &Tensor) -> Tensor {
        let (places, count) = (index.shallow_clone(), self.numel());
        let spread = move |by: &[f32]| {
            let mut sums = vec![0.0; count];
            places.0.values.iter().zip(by).for_each(|(at, by)| sums[*at as usize] += by);
            sums
        };
        let values = index.0.values.iter().map(|at| self.0.values[*at as usize]).collect();
        Tensor::made(values, vec![(self.shallow_clone(), Box::new(spread))])
    }

    pub fn g_add(&self, other: &Tensor) -> Tensor {
        self + other
    }

    pub fn g_sub(&self, other: &Tensor) -> Tensor {
        self - other
    }

    pub fn g_mul(&self, other: &Tensor) -> Tensor {
        self * other
    }

    /// The gradients of the sum of `tensors` by `inputs`.
    pub fn run_backward<A: Borrow<Tensor>, B: Borrow<Tensor>>(tensors: &[A], inputs: &[B], _keep: bool, _create: bool) -> Vec<Tensor> {
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        tensors.iter().for_each(|tensor| tensor.borrow().after(&mut seen, &mut order));
        let mut by: HashMap<*const Node, Vec<f32>> = HashMap::new();
        tensors.iter().for_each(|tensor| add(&mut by, tensor.borrow(), vec![1.0; tensor.borrow().numel()]));
        for tensor in order.iter().rev() {
            let Some(own) = by.get(&Rc::as_ptr(&tensor.0)).cloned() else { continue };
            tensor.0.from.iter().for_each(|(parent, slope)| add(&mut by, parent, slope(&own)));
        }
        let of = |input: &Tensor| by.get(&Rc::as_ptr(&input.0)).cloned().unwrap_or_else(|| vec![0.0; input.numel()]);
        inputs.iter().map(|input| Tensor::leaf(of(input.borrow()))).collect()
    }

    /// All that it was made of, and then itself.
    fn after(&self, seen: &mut HashSet<*const Node>, order: &mut Vec<Tensor>) {
        if self.0.learns && seen.insert(Rc::as_ptr(&self.0)) {
            self.0.from.iter().for_each(|(parent, _)| parent.after(seen, order));
            order.push(self.shallow_clone());
        }
    }
}

fn add(by: &mut HashMap<*const Node, Vec<f32>>, tensor: &Tensor, more: Vec<f32>) {
    let sums = by.entry(Rc::as_ptr(&tensor.0)).or_insert_with(|| vec![0.0; more.len()]);
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// -1, 0 or 1.
fn sign(x: f32) -> f32 {
    f32::from(i8::from(x > 0.0) - i8::from(x < 0.0))
}

/// The slope of the greater of two numbers by the first.
fn share(a: f32, b: f32) -> f32 {
    if a == b {
        0.5
    } else {
        f32::from(u8::from(a > b))
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        self.each(|x| -x, |_| -1.0)
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        -&self
    }
}

/// An operator between two vectors, and between one and a number.
macro_rules! operator {
    ($name:ident, $method:ident, $value:expr, $slopes:expr) => {
        operator!(@pair $name, $method, $value, $slopes, &Tensor, &Tensor);
        operator!(@pair $name, $method, $value, $slopes, Tensor, &Tensor);
        operator!(@pair $name, $method, $value, $slopes, &Tensor, Tensor);
        operator!(@pair $name, $method, $value, $slopes, Tensor, Tensor);
        operator!(@number $name, $method, $value, $slopes, &Tensor);
        operator!(@number $name, $method, $value, $slopes, Tensor);
    };
    (@pair $name:ident, $method:ident, $value:expr, $slopes:expr, $own:ty, $other:ty) => {
        impl $name<$other> for $own {
            type Output = Tensor;
            fn $method(self, other: $other) -> Tensor {
                let (own, other): (&Tensor, &Tensor) = (self.borrow(), other.borrow());
                own.pairs(other, $value, $slopes)
            }
        }
    };
    (@number $name:ident, $method:ident, $value:expr, $slopes:expr, $own:ty) => {
        impl $name<f64> for $own {
            type Output = Tensor;
            fn $method(self, number: f64) -> Tensor {
                let (own, number): (&Tensor, f32) = (self.borrow(), number as f32);
                own.each(|x| $value(x, number), move |x| $slopes(x, number).0)
            }
        }
    };
}

operator!(Add, add, |a: f32, b: f32| a + b, |_: f32, _: f32| (1.0, 1.0));
operator!(Sub, sub, |a: f32, b: f32| a - b, |_: f32, _: f32| (1.0, -1.0));
operator!(Mul, mul, |a: f32, b: f32| a * b, |a: f32, b: f32| (b, a));
operator!(Div, div, |a: f32, b: f32| a / b, |a: f32, b: f32| (1.0 / b, -a / (b * b)));

impl Add<Tensor> for f64 {
    type Output = Tensor;
    fn add(self, other: Tensor) -> Tensor {
        other + self
    }
}

impl<T: Borrow<Tensor>> AddAssign<T> for Tensor {
    fn add_assign(&mut self, other: T) {
        *self = &*self + other.borrow();
    }
}

impl<T: Borrow<Tensor>> MulAssign<T> for Tensor {
    fn mul_assign(&mut self, other: T) {
        *self = &*self * other.borrow();
    }
}

#[cfg(all(test, feature = "torch"))]
mod tests {
    use super::*;

    /// What both make of two vectors and some indices: a case for each function.
    macro_rules! cases {
        ($tensor:ty, $kind:ty, $device:ty) => {{
            type T = $tensor;
            let half: Vec<(&str, fn(&T, &T, &T) -> T)> = vec![
                ("neg", |a, _, _| -a),
                ("abs", |a, _, _| a.abs()),
                ("sign", |a, _, _| a.sign() * a),
                ("exp", |a, _, _| a.exp()),
                ("log", |a, _, _| (a.abs() + 0.1).log()),
                ("sqrt", |a, _, _| (a.square() + 0.1).sqrt()),
                ("sigmoid", |a, _, _| a.sigmoid()),
                ("clamp", |a, _, _| a.clamp(-0.5, 1.0)),
                ("clamp_min", |a, _, _| a.clamp_min(-0.5)),
                ("clamp_max", |a, _, _| a.clamp_max(1.0)),
                ("add", |a, b, _| a + b + 2.0 + (1.5 + a.copy())),
                ("sub", |a, b, _| a - b - 2.0),
                ("mul", |a, b, _| a * b * -3.0),
                ("div", |a, b, _| a / (b.square() + 0.5) / 4.0),
                ("maximum", |a, b, _| a.maximum(b)),
                ("minimum", |a, b, _| a.minimum(b)),
                ("where", |a, b, _| a.where_self(&b.gt(0.0), &(b * 2.0))),
                ("fill", |a, b, _| a.masked_fill(&b.lt(0.0).logical_or(&a.eq(1.0)), 7.0)),
                ("compare", |a, b, _| a * a.gt_tensor(b).logical_and(&a.le(1.0)).to_kind(<$kind>::Float)),
                ("differ", |a, b, _| {
                    a * a.not_equal_tensor(b).logical_not().to_kind(<$kind>::Float) + a * a.lt_tensor(b).to_kind(<$kind>::Float)
                }),
                ("like", |a, b, _| a * b.zeros_like() + b * a.ones_like()),
                ("detach", |a, b, _| a.detach() * b),
                ("total", |a, b, _| (a * b).sum(None)),
                ("rows", |a, b, i| {
                    <T>::zeros([3], (<$kind>::Float, <$device>::Cpu)).index_add(0, i, &(a * b)).square().index_select(0, i) * a
                }),
                ("named", |a, b, _| a.g_add(b).g_mul(a).g_sub(b)),
                ("assign", |a, b, _| {
                    let mut sum = a * 1.0;
                    sum += b;
                    sum *= a;
                    sum
                }),
            ];
            let run = |(name, of): &(&'static str, fn(&T, &T, &T) -> T)| {
                let a = <T>::from_slice(&[-2.0f32, -0.5, 0.0, 1.0, 1.5, 0.3]).set_requires_grad(true);
                let b = <T>::from_slice(&[0.7f32, -0.5, -1.0, 1.0, 3.0, 0.0]).set_requires_grad(true);
                let made = of(&a, &b, &<T>::from_slice(&[0i64, 2, 2, 1, 0, 2]));
                // Each place has a weight of its own, and each input a part that doesn't come from the function.
                let weights: Vec<f32> = (0..made.numel()).map(|i| 1.0 + i as f32).collect();
                let loss = (&made * <T>::from_slice(&weights)).sum(None) + (&a * 0.25 + &b * 0.5).sum(None);
                let slopes = <T>::run_backward(&[loss], &[&a, &b], false, false);
                (*name, made, slopes)
            };
            half.iter().map(run).collect::<Vec<_>>()
        }};
    }

    /// At corners and ties, too.
    #[test]
    fn values_and_slopes_are_libtorchs() {
        let own = cases!(Tensor, Kind, Device);
        let theirs = cases!(tch::Tensor, tch::Kind, tch::Device);
        assert_eq!(own.len(), theirs.len());
        for ((name, made, slopes), (_, expected, by)) in own.iter().zip(&theirs) {
            let close = |own: &Tensor, other: &tch::Tensor| {
                let (own, other) = (values(own), crate::tensors::values(other));
                let near = own.iter().zip(&other).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + b.abs()));
                assert!(own.len() == other.len() && near, "{name}: {own:?} is not {other:?}");
            };
            close(made, expected);
            slopes.iter().zip(by).for_each(|(own, other)| close(own, other));
        }
    }

    #[test]
    fn what_is_not_learnt_has_no_slope() {
        let a = Tensor::from_slice(&[2f32]).set_requires_grad(true);
        let free = no_grad(|| &a * 3.0);
        let slope = &Tensor::run_backward(&[(&free * &a).sum(None)], &[&a], false, false)[0];
        assert_eq!(values(slope), [6.0]);
        assert_eq!(values(&Tensor::run_backward(&[free], &[&a], false, false)[0]), [0.0]);
    }
}
