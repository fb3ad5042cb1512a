//! NCCL's runtime parameters as a program may ask for them.

use fakegpu_config::nccl;
use fakegpu_proto::Fault;

use crate::Runtime;
use crate::debug::Subsystem;
use crate::environment::Environment;

/// A parameter's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterId(pub usize);

/// The parameters that are documented or set, with their values.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// What the process's variables say; a parameter stays what it was at the first call.
    pub(crate) fn new(environment: &Environment) -> Self {
        let known = nccl::PARAMETERS.iter().map(|parameter| {
            let value = environment.get(parameter.name).unwrap_or(parameter.default);
            (parameter.name.to_owned(), value.to_owned())
        });
        let set =
            environment.all().filter(|(name, _)| name.starts_with("NCCL_") && nccl::find(name).is_none());
        Self(known.chain(set).collect())
    }

    /// The parameter of a key: its variable, with or without `NCCL_`.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn bind(&self, key: &str) -> Result<ParameterId, Fault> {
        let is_meant = |name: &str| name == key || name.strip_prefix("NCCL_") == Some(key);
        self.0.iter().position(|(name, _)| is_meant(name)).map(ParameterId).ok_or_else(|| {
            Fault::argument(format!("`{key}` is no runtime parameter of NCCL 2.32, and is not set"))
        })
    }

    /// Name and value.
    ///
    /// # Errors
    /// Where the number stands for none.
    pub(crate) fn get(&self, id: ParameterId) -> Result<(&str, &str), Fault> {
        let found = self.0.get(id.0).map(|(name, value)| (name.as_str(), value.as_str()));
        found.ok_or_else(|| Fault::argument("the parameter's handle was not made by ncclParamBind"))
    }

    /// A value as a number, in decimal or with `0x`.
    ///
    /// # Errors
    /// Where it is none, or not one of the type asked for.
    pub(crate) fn number<T: TryFrom<i128>>(&self, id: ParameterId) -> Result<T, Fault> {
        let (name, value) = self.get(id)?;
        let text = value.trim();
        let number = match text.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            Fault::argument(format!("{name} is `{value}`, which is no {}", std::any::type_name::<T>()))
        })
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// All names with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter()
    }
}

impl Runtime {
    /// `ncclParamBind`: the parameter of a key, its variable with or without `NCCL_`.
    ///
    /// # Errors
    /// Where there is none.
    pub fn parameter(&self, key: &str) -> Result<ParameterId, Fault> {
        self.parameters.bind(key)
    }

    /// A parameter's value as text; empty where it is unset and has no default.
    ///
    /// # Errors
    /// Where the number stands for none.
    pub fn parameter_text(&self, id: ParameterId) -> Result<&str, Fault> {
        self.parameters.get(id).map(|(_, value)| value)
    }

    /// A parameter's value as a number.
    ///
    /// # Errors
    /// Where it is none, or not one of the type asked for.
    pub fn parameter_number<T: TryFrom<i128>>(&self, id: ParameterId) -> Result<T, Fault> {
        self.parameters.number(id)
    }

    /// Every parameter's name.
    pub fn parameter_names(&self) -> impl Iterator<Item = &str> {
        self.parameters.names()
    }

    /// `ncclParamDumpAll`: every parameter, a line each, to the log.
    pub fn dump_parameters(&self) {
        for (name, value) in self.parameters.all() {
            self.debug.info(Subsystem::Environment, 0, || format!("{name}={value}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        let vars = [("NCCL_BUFFSIZE", "300"), ("NCCL_MINE", "x"), ("NCCL_NTHREADS", "0x10")];
        Parameters::new(&Environment::read(vars.map(|(name, value)| (name.to_owned(), value.to_owned()))))
    }

    #[test]
    fn a_value_out_of_the_types_range_is_refused() {
        let parameters = parameters();
        let size = parameters.bind("BUFFSIZE").unwrap();
        assert_eq!(parameters.number::<u16>(size), Ok(300));
        assert!(parameters.number::<u8>(size).unwrap_err().detail.contains("NCCL_BUFFSIZE is `300`"));
        assert_eq!(parameters.number::<i64>(parameters.bind("NCCL_NTHREADS").unwrap()), Ok(16));
    }

    #[test]
    fn what_is_set_is_a_parameter_whether_documented_or_not() {
        let parameters = parameters();
        assert_eq!(parameters.get(parameters.bind("MINE").unwrap()), Ok(("NCCL_MINE", "x")));
        assert!(parameters.bind("NCCL_YOURS").is_err());
        assert!(parameters.get(ParameterId(9_999)).is_err());
    }

    #[test]
    fn what_is_not_set_is_its_default() {
        let parameters = parameters();
        assert_eq!(parameters.number::<i32>(parameters.bind("NCCL_IB_TIMEOUT").unwrap()), Ok(20));
    }
}
