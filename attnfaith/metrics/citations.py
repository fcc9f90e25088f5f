"""The citations of the modules."""

SERRANO_SMITH = """\
@inproceedings{serrano2019attention,
  title = {Is Attention Interpretable?},
  author = {Serrano, Sofia and Smith, Noah A.},
  booktitle = {Proceedings of the 57th Annual Meeting of the Association for Computational Linguistics},
  year = {2019},
}"""

JAIN_WALLACE = """\
@inproceedings{jain2019attention,
  title = {Attention is not Explanation},
  author = {Jain, Sarthak and Wallace, Byron C.},
  booktitle = {Proceedings of the 2019 Conference of the North American Chapter of the Association for Computational
    Linguistics: Human Language Technologies},
  year = {2019},
}"""

WEN = """\
@article{wen2022revisiting,
  title = {Revisiting Attention Weights as Explanations from an Information Theoretic Perspective},
  author = {Wen, Bingyang and Subbalakshmi, K. P. and Yang, Fan},
  year = {2022},
}"""

ERASER = """\
@inproceedings{deyoung2020eraser,
  title = {{ERASER}: A Benchmark to Evaluate Rationalized {NLP} Models},
  author = {DeYoung, Jay and Jain, Sarthak and Rajani, Nazneen Fatema and Lehman, Eric and Xiong, Caiming and
    Socher, Richard and Wallace, Byron C.},
  booktitle = {Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics},
  year = {2020},
}"""

ADEBAYO = """\
@inproceedings{adebayo2018sanity,
  title = {Sanity Checks for Saliency Maps},
  author = {Adebayo, Julius and Gilmer, Justin and Muelly, Michael and Goodfellow, Ian and Hardt, Moritz and Kim, Been},
  booktitle = {Advances in Neural Information Processing Systems 31},
  year = {2018},
}"""

MADSEN = """\
@inproceedings{madsen2024faithfulness,
  title = {Faithfulness Measurable Masked Language Models},
  author = {Madsen, Andreas and Reddy, Siva and Chandar, Sarath},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  year = {2024},
}"""
