"""engines/local"""
