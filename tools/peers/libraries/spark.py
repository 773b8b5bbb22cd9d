"""Rows of released products in Spark. The join adds no noise: its sums are exact."""

from __future__ import annotations

import os
import sys

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums


def given(ask: Ask) -> Sums:
    """Exact sums of released products over the rows that a private engine would get."""
    purchases, keys, max_rows, max_amount = ask.purchases, ask.keys, ask.max_rows, ask.max_amount
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    # guide
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    released = spark.read.parquet(keys).select("product")
    mine = Window.partitionBy("person").orderBy(F.xxhash64("product", "amount", "person"))
    rows = (
        spark.read.parquet(purchases)
        .join(F.broadcast(released), "product")
        .fillna(0, ["amount"])
        .withColumn("amount", F.greatest(F.lit(0), F.least("amount", F.lit(max_amount))))
        .withColumn("number", F.row_number().over(mine))
        .where(F.col("number") <= max_rows)
        .drop("number")
    )  # as confidential as all purchases: for a private engine, not for people
    # end of guide
    sums = rows.groupBy("product").agg(F.sum("amount").alias("amount"))
    return {row["product"]: float(row["amount"]) for row in sums.collect()}


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    answer("pyspark", given)
