//! Visits every operand of a program, and the operands inside an operand.

use bmv2_json::{Expression, Operand, Operation, ParserOpParameter, Primitive, Program, Value};

/// Calls `f` with an operand and all operands inside it.
pub fn inside<'a>(value: &'a Value, f: &mut dyn FnMut(&'a Value)) {
    f(value);
    match value {
        Value::Expression(expression) => match &**expression {
            Expression::Value(inner) => inside(inner, f),
            Expression::Op(operation) => operands(operation).for_each(|inner| inside(inner, f)),
        },
        Value::Register((_, index)) => inside(index, f),
        Value::ParametersVector(values) => values.iter().for_each(|inner| inside(inner, f)),
        _ => {}
    }
}

pub fn operands(operation: &Operation) -> impl Iterator<Item = &Value> {
    [&operation.cond, &operation.left, &operation.right]
        .into_iter()
        .filter_map(|operand| match operand {
            Some(Operand::Value(value)) => Some(value),
            _ => None,
        })
}

/// Calls `f` with every operand in the program, keys and targets included.
pub fn values<'a>(program: &'a Program, f: &mut dyn FnMut(&'a Value)) {
    for action in &program.actions {
        primitives(&action.primitives, f);
    }
    for parser in &program.parsers {
        for state in &parser.parse_states {
            for op in &state.parser_ops {
                for parameter in &op.parameters {
                    match parameter {
                        ParserOpParameter::Value(value) => inside(value, f),
                        ParserOpParameter::Primitive(primitive) => {
                            primitives(std::slice::from_ref(primitive), f);
                        }
                        ParserOpParameter::Number(_) => {}
                    }
                }
            }
            state.transition_key.iter().for_each(|key| inside(key, f));
        }
    }
    for deparser in &program.deparsers {
        primitives(&deparser.primitives, f);
    }
    for pipeline in &program.pipelines {
        for conditional in &pipeline.conditionals {
            inside(&conditional.expression, f);
        }
        let selectors = pipeline
            .action_profiles
            .iter()
            .filter_map(|it| it.selector.as_ref());
        for selector in selectors {
            selector.input.iter().for_each(|value| inside(value, f));
        }
    }
    let lists = program.field_lists.iter().flat_map(|list| &list.elements);
    let digests = program.learn_lists.iter().flat_map(|list| &list.elements);
    let inputs = program.calculations.iter().flat_map(|it| &it.input);
    let conditions = program
        .checksums
        .iter()
        .filter_map(|it| it.if_cond.as_ref());
    let lengths = program
        .header_types
        .iter()
        .filter_map(|it| it.length_exp.as_ref());
    let attributes = program
        .extern_instances
        .iter()
        .flat_map(|it| &it.attribute_values);
    lists
        .chain(digests)
        .chain(inputs.map(|input| &input.value))
        .chain(conditions)
        .chain(lengths)
        .chain(attributes.map(|attribute| &attribute.value))
        .for_each(|value| inside(value, f));
}

fn primitives<'a>(primitives: &'a [Primitive], f: &mut dyn FnMut(&'a Value)) {
    for parameter in primitives
        .iter()
        .flat_map(|primitive| &primitive.parameters)
    {
        inside(parameter, f);
    }
}

/// Returns the fields that are named outside operands: in keys, checksums, meters' results and aliases.
pub fn bare_fields(program: &Program) -> impl Iterator<Item = &bmv2_json::FieldRef> {
    let tables = program.pipelines.iter().flat_map(|it| &it.tables);
    tables
        .flat_map(|table| table.key.iter().map(|key| &key.target))
        .chain(program.checksums.iter().map(|checksum| &checksum.target))
        .chain(
            program
                .meter_arrays
                .iter()
                .filter_map(|meter| meter.result_target.as_ref()),
        )
        .chain(program.force_arith.iter())
        .chain(program.field_aliases.iter().map(|(_, field)| field))
}
