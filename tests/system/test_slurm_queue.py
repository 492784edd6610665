"""Jobs that wait for what will not come are named; others are left alone."""

from nmt.system.slurm import stuck

QUEUE = """\
11|PartitionConfig|rule_train_wildcards_scenes_tiny_1
12|PartitionConfig|rule_train_wildcards_scenes_tiny_2
13|(QOSMaxMemoryPerJob)|group_row_average_decode_score
14|Priority|rule_train_wildcards_scenes_tiny_3
15|Resources|rule_decode_wildcards_x
16|None|rule_train_wildcards_scenes_tiny_4
17|PartitionConfig|my own job
18|PartitionDown|

"""


def test_a_job_is_named_for_each_stage_and_reason() -> None:
    assert stuck(QUEUE) == {
        ("rule_train", "PartitionConfig"): "11",
        ("group_row_average_decode_score", "QOSMaxMemoryPerJob"): "13",
    }
