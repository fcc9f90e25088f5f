"""The adversarial model: the same outputs with attention that is as different as can be."""
