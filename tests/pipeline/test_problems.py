import pickle

from icefloe.pipeline.yaml_file import PipelineFileError, Problem, dotted, in_line_order


def problem(line, key="k"):
    return Problem(line=line, key=key, sentence=f"{key} is wrong")


def test_a_problem_of_the_whole_file_has_no_line():
    assert problem(0).at("a.yaml") == "a.yaml: k is wrong"
    assert problem(7).at("a.yaml") == "a.yaml:7: k is wrong"


def test_problems_are_ordered_by_line_and_each_occurs_once():
    assert in_line_order([problem(3), problem(1, "b"), problem(1, "a"), problem(3)]) == (
        problem(1, "b"),
        problem(1, "a"),
        problem(3),
    )


def test_the_error_joins_all_problems_and_carries_the_first_as_facts():
    error = PipelineFileError.of("a.yaml", [problem(4, "z"), problem(2, "y")])
    assert error.sentence == "a.yaml:2: y is wrong\na.yaml:4: z is wrong"
    assert (error.path, error.line, error.key, error.exit_code) == ("a.yaml", 2, "y", 65)
    assert pickle.loads(pickle.dumps(error)).problems == error.problems == (problem(2, "y"), problem(4, "z"))


def test_a_position_in_a_list_is_written_in_brackets():
    assert dotted(("columns", 2)) == "columns[2]"
    assert dotted(("spark", "conf", "spark.cores")) == "spark.conf.spark.cores"
